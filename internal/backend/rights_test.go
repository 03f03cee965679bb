package backend

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// redisError is an error that Redis answers.
type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}

// An error about an account says where the rights are documented, once; others stay as they are.
func TestErrorsAboutRightsSayWhereTheyStand(t *testing.T) {
	t.Parallel()
	number := func(n uint16) error { return fmt.Errorf("migrate: %w", &mysql.MySQLError{Number: n}) }
	for err, want := range map[error]bool{
		number(1044): true, number(1045): true, number(1142): true, redisError("WRONGPASS invalid"): true,
		redisError("NOPERM no permissions"): true,
		number(1213):                        false, number(1290): false, redisError("READONLY You can't"): false,
		redisError("OOM not allowed"): false,
	} {
		text := err.Error() + map[bool]string{true: "; see 'Rights' in docs/servers.md"}[want]
		if got := explained(explained(err)); got.Error() != text || errors.Is(got, ErrRights) != want ||
			!errors.Is(got, err) {
			t.Errorf("explained(%v) = %v, want %q", err, got, text)
		}
	}
}
