package backend

import (
	"errors"
	"slices"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"lastitem/say/text"
)

// ErrRights says that a server has refused an account: a wrong password, or a right that it lacks. Trying again is of
// no use.
var ErrRights = text.Of("see 'Rights' in docs/servers.md").Errorf()

// How servers word it: MySQL's numbers for a database, a password, a table, a column, a privilege and a routine, and
// the beginnings of Redis's answers.
var (
	rightsMySQL = []uint16{1044, 1045, 1142, 1143, 1227, 1370}
	rightsRedis = []string{"WRONGPASS", "NOAUTH", "NOPERM"}
)

// explained adds to an error about rights where they are documented, and makes it [ErrRights].
func explained(err error) error {
	var my *mysql.MySQLError
	about := errors.As(err, &my) && slices.Contains(rightsMySQL, my.Number) ||
		slices.ContainsFunc(rightsRedis, func(p string) bool { return redis.HasErrorPrefix(err, p) })
	if !about || errors.Is(err, ErrRights) {
		return err
	}
	return text.Of("%w; %w").Errorf(err, ErrRights)
}
