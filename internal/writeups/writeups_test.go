// Package writeups_test shows, on real servers, what is wrong with listings and claims that are common in write-ups on
// deducting stock under a distributed lock. docs/write-ups.md says which claim each test belongs to.
//
// An exhibit sends real commands in a fixed order, as two or three clients would interleave, wants each answer, and
// tells the story: run one with -v. Stories that are statements only stand in testdata, see play. Where
// docs/interview.md shows a story, a test compares the two; -update rewrites it.
package writeups_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

var update = flag.Bool("update", false, "rewrite the stories in docs/interview.md and docs/interview.zh.md")

// soon is how long an exhibit waits for what must happen.
const soon = 20 * time.Second

// story is what an exhibit tells.
type story struct {
	*testing.T
	prefix string // of keys, left out when it tells
	lines  []string
}

// tell begins a story, beside others. When the exhibit is over, the documents must show it as it was told.
func tell(t *testing.T) *story {
	t.Parallel()
	s := &story{T: t}
	t.Cleanup(func() {
		if !t.Failed() && !t.Skipped() {
			s.compare()
		}
	})
	return s
}

// says tells a line: who, what, and what came of it.
func (s *story) says(who, what, came string) {
	line := locktest.Line(who, what, came)
	if s.prefix != "" {
		line = strings.ReplaceAll(line, s.prefix, "")
	}
	s.lines = append(s.lines, line)
	fmt.Fprintln(s.Output(), line)
}

// note tells what follows from the lines above.
func (s *story) note(format string, args ...any) { s.says("=>", fmt.Sprintf(format, args...), "") }

// is tells an answer, and fails where it is not the one that the exhibit is there to show.
func (s *story) is(who, what, got, want string) {
	s.Helper()
	s.says(who, what, got)
	if s.prefix != "" {
		got = strings.ReplaceAll(got, s.prefix, "")
	}
	if got != want {
		s.Fatalf("%s  %s = %s, want %s: this exhibit no longer shows its flaw", who, what, got, want)
	}
}

// documents show stories. One test at a time reads or writes them.
var documents = struct {
	sync.Mutex
	names []string
}{names: []string{"../../docs/interview.md", "../../docs/interview.zh.md"}}

// compare holds the documents to the story: the text block behind the command that runs this exhibit alone.
func (s *story) compare() {
	documents.Lock()
	defer documents.Unlock()
	command := regexp.QuoteMeta("go test -v -run '^" + s.Name() + "$' ./internal/writeups")
	shown := regexp.MustCompile("(?s)```sh\n" + command + "\n```\n\n```text\n(.*?)```\n")
	for _, name := range documents.names {
		text, err := os.ReadFile(name)
		if err != nil {
			s.Error(err)
			continue
		}
		at := shown.FindSubmatchIndex(text)
		if at == nil {
			continue
		}
		want := strings.Join(s.lines, "\n") + "\n"
		if *update {
			err = os.WriteFile(name, []byte(string(text[:at[2]])+want+string(text[at[3]:])), 0o644)
			testkit.Check(s, err)
			continue
		}
		if diff := cmp.Diff(want, string(text[at[2]:at[3]])); diff != "" {
			s.Errorf("%s: run 'go test ./internal/writeups -update' (-told +shown):\n%s", name, diff)
		}
	}
}

// client is one of those who take part, with a connection to Redis.
type client struct {
	s    *story
	name string
	c    commander
}

// commander is a client, or one connection of it.
type commander interface {
	redis.Scripter
	Do(ctx context.Context, args ...any) *redis.Cmd
}

// redis gives the story a server, and connections to it.
func (s *story) redis(names ...string) (server *redis.Client, all []client) {
	s.Helper()
	r := testenv.Redis(s)
	s.prefix = r.Prefix
	for _, name := range names {
		conn := r.Client.Conn()
		s.Cleanup(func() { _ = conn.Close() })
		all = append(all, client{s, name, conn})
	}
	return r.Client, all
}

// withABC begins a story with three clients of one Redis.
func withABC(t *testing.T) (s *story, a, b, c client) {
	s = tell(t)
	_, all := s.redis("A", "B", "C")
	return s, all[0], all[1], all[2]
}

func withAB(t *testing.T) (s *story, a, b client) {
	s, a, b, _ = withABC(t)
	return s, a, b
}

func withA(t *testing.T) (*story, client) {
	s, a, _, _ := withABC(t)
	return s, a
}

// masters connects to independent servers.
func (s *story) masters(servers []*testenv.RedisNode) (all []client) {
	for _, n := range servers {
		all = append(all, s.node("", n))
	}
	return all
}

// node connects to a server of the test's own, on which keys need no prefix.
func (s *story) node(name string, n *testenv.RedisNode) client {
	s.Helper()
	o, err := redis.ParseURL(n.URL)
	testkit.Must(s, err)
	o.MaxRetries = -1
	c := redis.NewClient(o)
	s.Cleanup(func() { _ = c.Close() })
	return client{s, name, c}
}

// do sends a command of words, tells it with its answer, and fails unless that is as wanted. A word that begins with @
// is a key.
func (c client) do(want, command string) {
	c.s.Helper()
	c.s.is(c.name, strings.ReplaceAll(command, "@", ""), c.quietly(command), want)
}

// expires has the TTL of a key be over, without waiting for it.
func (c client) expires(key string) {
	c.s.Helper()
	if got := c.quietly("PEXPIRE @" + key + " 0"); got != "1" {
		c.s.Fatalf("PEXPIRE %s 0: %s", key, got)
	}
	c.s.says("", "the TTL of "+key+" is over", "")
}

// left is for how many milliseconds a key will still be there.
func (c client) left(key string) int {
	n, err := strconv.Atoi(c.quietly("PTTL @" + key))
	testkit.Must(c.s, err)
	return n
}

// quietly sends a command and tells nothing.
func (c client) quietly(command string) string {
	var args []any
	for _, word := range strings.Fields(command) {
		if key, ok := strings.CutPrefix(word, "@"); ok {
			word = c.s.prefix + key
		}
		args = append(args, word)
	}
	return locktest.Answer(c.c.Do(c.s.Context(), args...).Result())
}

// eval runs a script on one key; what is told of it is its gist.
func (c client) eval(want, gist, script, key string, args ...any) {
	c.s.Helper()
	got := locktest.Answer(c.c.Eval(c.s.Context(), script, []string{c.s.prefix + key}, args...).Result())
	c.s.is(c.name, gist, got, want)
}

// session is one of those who take part, with a connection to MySQL of its own.
type session struct {
	s    *story
	name string
	*sql.Conn
}

// mysql gives the story a database with tables, and connections to it.
func (s *story) mysql(tables []string, names ...string) []session {
	s.Helper()
	db, err := sql.Open("mysql", testenv.MySQL(s))
	testkit.Must(s, err)
	s.Cleanup(func() { _ = db.Close() })
	for _, statement := range tables {
		_, err := db.ExecContext(s.Context(), statement)
		testkit.Mustf(s, err, "%s", statement)
	}
	var all []session
	for _, name := range names {
		conn, err := db.Conn(s.Context())
		testkit.Must(s, err)
		s.Cleanup(func() { _ = conn.Close() })
		// Newer MariaDBs refuse a stale write by themselves; here they are to behave as MySQL does. Others do not know it.
		_, _ = conn.ExecContext(s.Context(), "SET SESSION innodb_snapshot_isolation = OFF")
		all = append(all, session{s, name, conn})
	}
	return all
}

// onMySQL begins a story with two connections to a database with tables.
func onMySQL(t *testing.T, tables ...string) (s *story, a, b session) {
	s = tell(t)
	all := s.mysql(tables, "A", "B")
	return s, all[0], all[1]
}

// exec runs a statement that returns no rows, and wants so many affected.
func (c session) exec(want, statement string) {
	c.s.Helper()
	c.s.is(c.name, statement, c.run(c.s.Context(), statement), want)
}

func (c session) run(ctx context.Context, statement string) string {
	r, err := c.ExecContext(ctx, statement)
	if err != nil {
		return failure(err)
	}
	n, err := r.RowsAffected()
	if err != nil {
		return failure(err)
	}
	switch verb, _, _ := strings.Cut(statement, " "); verb {
	case "INSERT", "UPDATE", "DELETE":
		return fmt.Sprintf("%d affected", n)
	default:
		return "ok"
	}
}

// later runs a statement that may have to wait, and returns what waits for its end.
func (c session) later(statement string) (came func() string) {
	done := make(chan string, 1)
	go func() { done <- c.run(c.s.Context(), statement) }()
	return func() string { return <-done }
}

// value runs a query of one value.
func (c session) value(want, query string) {
	c.s.Helper()
	var v sql.NullString
	got := failure(c.QueryRowContext(c.s.Context(), query).Scan(&v))
	if got == "" {
		got = "NULL"
		if v.Valid {
			got = v.String
		}
	}
	c.s.is(c.name, query, got, want)
}

// play has clients of a server do what testdata says under the name of the test: their names, in MySQL with an
// isolation level where they set one, and the tables; after an empty line the steps, one after the other.
//
//	=> what follows from the lines above
//	A: SELECT stock FROM product_stock -> 1
//	B waits: UPDATE product_stock SET stock = 0
//	B: -> 1 affected
//	A|B: UPDATE product_stock SET stock = 1 | UPDATE orders SET state = 'paid' -> 1 of 2: error 1213
//	A expires: @lock
//
// What B waits for is answered in the line with the answer alone. A and B deadlock, by two statements or by the same.
// In Redis, the TTL of A's key is over.
func play(t *testing.T) {
	s := tell(t)
	begin, steps, _ := strings.Cut(string(testkit.Read(t, "testdata/"+t.Name()+".txt")), "\n\n")
	head, tables, _ := strings.Cut(begin, "\n")
	names, level, _ := strings.Cut(strings.TrimPrefix(head, "on "), " at ")
	server, names, _ := strings.Cut(names, " ")
	act := s.onMySQL
	if server == "Redis" {
		act = s.onRedis
	}
	step := act(strings.Fields(names), level, strings.FieldsFunc(tables, func(c rune) bool { return c == '\n' }))
	for _, line := range strings.Split(strings.TrimSpace(steps), "\n") {
		if what, is := strings.CutPrefix(line, "=> "); is {
			s.says("=>", what, "")
			continue
		}
		name, said, _ := strings.Cut(line, ": ")
		statement, want, _ := strings.Cut(" "+said, " -> ")
		name, how, _ := strings.Cut(name, " ")
		step(name, how, strings.TrimSpace(statement), want)
	}
}

// onRedis returns what takes a step of a play in Redis.
func (s *story) onRedis(names []string, _ string, _ []string) func(name, how, command, want string) {
	all := map[string]client{}
	_, clients := s.redis(names...)
	for _, c := range clients {
		all[c.name] = c
	}
	return func(name, how, command, want string) {
		if how == "expires" {
			all[name].expires(strings.TrimPrefix(command, "@"))
			return
		}
		all[name].do(want, command)
	}
}

// onMySQL returns what takes a step of a play in MySQL.
func (s *story) onMySQL(names []string, level string, tables []string) func(name, how, statement, want string) {
	all, came := map[string]session{}, map[string]func(want string){}
	for _, c := range s.mysql(tables, names...) {
		all[c.name] = c
		if level != "" {
			_, err := c.ExecContext(s.Context(), "SET SESSION TRANSACTION ISOLATION LEVEL "+level)
			testkit.Must(s, err)
		}
	}
	return func(name, how, statement, want string) {
		switch c := all[name]; {
		case how == "waits":
			end := c.later(statement)
			came[name] = func(want string) { s.is(name, statement, end(), want) }
		case statement == "":
			came[name](want)
		case strings.Contains(name, "|"):
			first, second, _ := strings.Cut(name, "|")
			mine, other, two := strings.Cut(statement, " | ")
			what := "both statements"
			if !two {
				what, other = statement, mine
			}
			end := all[first].later(mine)
			got := map[string]int{all[second].run(s.Context(), other): 1}
			got[end()]++
			s.is(first+second, what, fmt.Sprintf("%d of 2: error 1213", got["error 1213"]), want)
		case strings.HasPrefix(statement, "SELECT "):
			c.value(want, statement)
		default:
			c.exec(want, statement)
		}
	}
}

// failure names an error by its number; "" for none.
func failure(err error) string {
	var e *mysql.MySQLError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, sql.ErrNoRows):
		return "no row"
	case errors.As(err, &e) && (e.Number == 1205 || e.Number == 3572): // as MariaDB and MySQL say it
		return "locked by another"
	case errors.As(err, &e):
		return fmt.Sprintf("error %d", e.Number)
	}
	return err.Error()
}
