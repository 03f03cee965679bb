package testenv

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"lastitem/say/redact"
)

// RedisUser creates a user with the given ACL rules only, until the test ends, and returns its URL.
func RedisUser(t testing.TB, r *RedisServer, rules ...string) string {
	t.Helper()
	u, err := url.Parse(r.URL)
	if err != nil {
		t.Fatalf("testenv: Redis URL: %v", err)
	}
	user, password := "t-"+name(), name()
	args := []any{"ACL", "SETUSER", user, "on", ">" + password}
	for _, rule := range rules {
		args = append(args, rule)
	}
	if err := r.Client.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("testenv: make a user at %s: %v", redact.Address(r.URL), err)
	}
	o := *r.Client.Options()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleaning)
		defer cancel()
		c := redis.NewClient(&o)
		if err := c.Do(ctx, "ACL", "DELUSER", user).Err(); err != nil {
			t.Errorf("testenv: %v", err)
		}
		_ = c.Close()
	})
	u.User = url.UserPassword(user, password)
	return u.String()
}

// MySQLUser creates a user with privileges on the database of a DSN only, until the test ends, and returns its DSN.
func MySQLUser(t testing.TB, dsn, privileges string) string {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatalf("testenv: SQL DSN: %v", err)
	}
	own := cfg.Clone()
	own.User, own.Passwd = "t_"+name(), name()
	account := "'" + own.User + "'@'%'"
	if strings.HasPrefix(cfg.Addr, "127.0.0.1:") {
		account = "'" + own.User + "'@'127.0.0.1'"
	}
	for _, statement := range []string{
		"CREATE USER " + account + " IDENTIFIED BY '" + own.Passwd + "'",
		"GRANT " + privileges + " ON `" + cfg.DBName + "`.* TO " + account,
	} {
		if err := mysqlExec(cfg, statement); err != nil {
			t.Fatalf("testenv: make a user at %s: %v", cfg.Addr, err)
		}
	}
	t.Cleanup(func() {
		if err := mysqlExec(cfg, "DROP USER "+account); err != nil {
			t.Errorf("testenv: %v", err)
		}
	})
	return own.FormatDSN()
}
