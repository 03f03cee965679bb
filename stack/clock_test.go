package stack

import (
	"database/sql"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"lastitem/testkit"
)

const jump = time.Hour

// A Redis shows the clock that it was started with: its TIME moves, keys expire, and a clock that goes back lengthens
// the life of the keys that exist. Another Redis keeps the machine's time.
func TestClockOfRedis(t *testing.T) {
	t.Parallel()
	s := clockStack(t, Redis)
	clock := newClock(t, s, "redis clock")
	moved, other := spawnRedis(t, s, "moved", clock.Env()), spawnRedis(t, s, "other", nil)
	for _, c := range []*redis.Client{moved, other} {
		wantRedisTime(t, c, 0)
		testkit.Must(t, c.SetNX(t.Context(), "lock", "a", jump/2).Err())
	}
	setClock(t, clock, jump)
	wantRedisTime(t, moved, jump)
	wantRedisTime(t, other, 0)
	if left := moved.PTTL(t.Context(), "lock").Val(); left != -2 {
		t.Errorf("PTTL of the lock = %v after a jump past its end, want -2: no such key", left)
	}
	if left := other.PTTL(t.Context(), "lock").Val(); left <= 0 || left > jump/2 {
		t.Errorf("PTTL of the other server's lock = %v, want at most %v", left, jump/2)
	}
	if ok, err := moved.SetNX(t.Context(), "lock", "b", jump/2).Result(); !ok || err != nil {
		t.Fatalf("SET NX of an expired lock = %t, %v, want true", ok, err)
	}
	setClock(t, clock, -jump)
	wantRedisTime(t, moved, -jump)
	if left := moved.PTTL(t.Context(), "lock").Val(); left <= 2*jump {
		t.Errorf("PTTL of the lock = %v after a jump back by %v, want more than that", left, 2*jump)
	}
}

// A database shows the clock that it was started with. Its time-outs, which it computes as points in time, last as long
// as before.
func TestClockOfMySQL(t *testing.T) {
	testkit.Slow(t, "two servers, whose clocks it must compile")
	t.Parallel()
	s := clockStack(t, MySQL)
	clock := newClock(t, s, "sql clock")
	moved, other := spawnSQL(t, s, "moved", clock.Env()), spawnSQL(t, s, "other", nil)
	for _, offset := range []time.Duration{0, jump, -jump} {
		setClock(t, clock, offset)
		wantSQLTime(t, moved, offset)
		wantSQLTime(t, other, 0)
		wantLockWaitTimeout(t, moved)
	}
}

// Without a C compiler there is no clock, and the error says what to install.
func TestClockNeedsACompiler(t *testing.T) {
	t.Setenv(EnvProgram+"CC", "no-such-compiler")
	s := startStack(t, Options{Only: []string{}})
	if _, err := s.NewClock(t.Context(), "clock"); err == nil {
		t.Error("NewClock without a compiler = nil, want an error")
	}
}

// clockStack starts a stack without any part.
func clockStack(t *testing.T, backends ...string) *Stack {
	t.Helper()
	wants(t, append(backends, Compiler)...)
	return startStack(t, Options{Only: []string{}})
}

func newClock(t *testing.T, s *Stack, name string) *Clock {
	t.Helper()
	c, err := s.NewClock(t.Context(), name)
	testkit.Must(t, err)
	return c
}

func setClock(t *testing.T, c *Clock, offset time.Duration) {
	t.Helper()
	if err := c.Set(offset); err != nil || c.Offset() != offset {
		t.Fatalf("Set(%v) = %v, Offset = %v", offset, err, c.Offset())
	}
}

func spawnRedis(t *testing.T, s *Stack, name string, env []string) *redis.Client {
	t.Helper()
	path, err := Find(Redis)
	testkit.Must(t, err)
	sv := redisServer(path, name, "", &Options{})
	run, err := s.Spawn(t.Context(), Child{
		Name: name, Ready: sv.ready, Env: func(string) []string { return env },
		Argv: func(addr string) []string {
			argv, err := sv.setup(site{addr: addr, dir: s.Dir})
			testkit.Check(t, err)
			return argv
		},
	})
	testkit.Must(t, err)
	o, err := redis.ParseURL(sv.url(run.Addr))
	testkit.Must(t, err)
	c := testkit.Closing(t, redis.NewClient(o))
	return c
}

func spawnSQL(t *testing.T, s *Stack, name string, env []string) *sql.DB {
	t.Helper()
	run, err := s.SpawnSQL(t.Context(), SQLServer{Name: name, Env: env, Conf: []string{"--innodb-lock-wait-timeout=1"}})
	testkit.Must(t, err)
	db, err := sql.Open("mysql", run.URL)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	_, err = db.ExecContext(t.Context(), "CREATE TABLE row_lock (id INT PRIMARY KEY) SELECT 1 AS id")
	testkit.Must(t, err)
	return db
}

func wantRedisTime(t *testing.T, c *redis.Client, offset time.Duration) {
	t.Helper()
	wantTime(t, "TIME", offset, func() (time.Time, error) { return c.Time(t.Context()).Result() })
}

func wantSQLTime(t *testing.T, db *sql.DB, offset time.Duration) {
	t.Helper()
	const us = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
	wantTime(t, "UTC_TIMESTAMP", offset, func() (time.Time, error) {
		var text string
		if err := db.QueryRowContext(t.Context(), "SELECT "+us).Scan(&text); err != nil {
			return time.Time{}, err
		}
		n, err := strconv.ParseInt(text, 10, 64)
		return time.UnixMicro(n), err
	})
}

// wantTime asks a server for its time. Server and test read the same clock, so the answer lies between the times that
// the test reads before and after; Redis may answer with a time that it read some commands before.
func wantTime(t *testing.T, what string, offset time.Duration, ask func() (time.Time, error)) {
	t.Helper()
	const slack = jump / 4
	before := time.Now()
	got, err := ask()
	testkit.Must(t, err)
	if got.Before(before.Add(offset-slack)) || got.After(time.Now().Add(offset+slack)) {
		t.Errorf("%s = %v, %v from the machine's time, want %v", what, got, got.Sub(before).Round(time.Second), offset)
	}
}

// wantLockWaitTimeout waits for a row lock that another transaction holds: error 1205 ends the wait.
func wantLockWaitTimeout(t *testing.T, db *sql.DB) {
	t.Helper()
	ctx := testkit.Within(t, readyWithin)
	holder, err := db.BeginTx(ctx, nil)
	testkit.Must(t, err)
	defer func() { _ = holder.Rollback() }()
	const lock = "SELECT id FROM row_lock FOR UPDATE"
	_, err = holder.ExecContext(ctx, lock)
	testkit.Must(t, err)
	_, err = db.ExecContext(ctx, lock)
	var refused *mysql.MySQLError
	if !errors.As(err, &refused) || refused.Number != 1205 {
		t.Errorf("a wait for a row lock ended with %v, want error 1205", err)
	}
}
