package backend

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// redisAnswer is an error that Redis answers.
type redisAnswer string

func (e redisAnswer) Error() string { return string(e) }
func (redisAnswer) RedisError()     {}

// An error about an account says where the rights are documented, once; others stay as they are.
func TestErrorsAboutRightsSayWhereTheyStand(t *testing.T) {
	t.Parallel()
	for _, number := range []uint16{1044, 1045, 1142, 1143, 1227, 1213, 1290, 2006} {
		err := fmt.Errorf("migrate: %w", &mysql.MySQLError{Number: number})
		if got, want := errors.Is(explained(err), ErrRights), number < 1213 || number == 1227; got != want || !errors.Is(explained(err), err) {
			t.Errorf("explained(%v) = %v, want it about rights: %t", err, explained(err), want)
		}
	}
	for text, want := range map[string]bool{
		"WRONGPASS invalid username-password pair": true, "NOPERM this user has no permissions": true, "NOAUTH Authentication required.": true,
		"READONLY You can't write": false, "OOM command not allowed": false,
	} {
		err := explained(explained(redisAnswer(text)))
		if want := map[bool]string{true: text + "; see 'Rights' in docs/servers.md", false: text}[want]; err.Error() != want {
			t.Errorf("explained twice: %q, want %q", err, want)
		}
	}
}
