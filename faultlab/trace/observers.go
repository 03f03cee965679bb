package trace

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"lastitem/internal/backend"
	"lastitem/stack/wire/codec"
)

// observed is a command as the server saw it.
type observed struct {
	server string
	at     time.Time
	ran    time.Duration // how long the server worked on it; may be unknown
	words  []string      // of a Redis command
	text   string
	script bool // sent by a script, not by a client
}

// redisObserver looks at what a Redis does: MONITOR says what came and when, the slow log with a threshold of 0 how
// long it took.
type redisObserver struct {
	name   string
	client redis.UniversalClient
	conn   net.Conn
	lines  *bufio.Reader
}

// errNoMonitor is a Redis that knows no MONITOR: the embedded one.
var errNoMonitor = errors.New("MONITOR is not known there")

func watchRedis(ctx context.Context, name, address string) (*redisObserver, error) {
	o, err := redis.ParseURL(address)
	if err != nil {
		return nil, err
	}
	client, err := backend.OpenRedis(address, 2)
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", o.Addr)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	e := &redisObserver{name: name, client: client, conn: conn, lines: bufio.NewReader(conn)}
	if err := e.begin(ctx, o.Username, o.Password); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// begin turns the connection into a monitor.
func (e *redisObserver) begin(ctx context.Context, user, password string) error {
	var commands []string
	if password != "" {
		commands = append(commands, "AUTH "+user+" "+password)
	}
	for _, c := range append(commands, "MONITOR") {
		if _, err := e.conn.Write(respBytes(strings.Fields(c))); err != nil {
			return err
		}
		line, err := e.line(time.Now().Add(timeout))
		if err != nil {
			return err
		}
		if !strings.HasPrefix(line, "+OK") {
			return fmt.Errorf("%w: %s", errNoMonitor, line)
		}
	}
	if err := e.client.ConfigSet(ctx, "slowlog-log-slower-than", "0").Err(); err != nil {
		return err
	}
	return e.client.ConfigSet(ctx, "slowlog-max-len", "1000").Err()
}

func respBytes(words []string) []byte {
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
	}
	return []byte(text)
}

func (e *redisObserver) line(deadline time.Time) (string, error) {
	if err := e.conn.SetReadDeadline(deadline); err != nil {
		return "", err
	}
	line, err := e.lines.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

// forget drops what the server has seen so far.
func (e *redisObserver) forget(ctx context.Context) error {
	if _, err := e.read(ctx); err != nil {
		return err
	}
	return e.client.Do(ctx, "SLOWLOG", "RESET").Err()
}

// look returns what the server has seen since forget. That includes every command that was answered before the call.
func (e *redisObserver) look(ctx context.Context) ([]observed, error) {
	all, err := e.read(ctx)
	if err != nil {
		return nil, err
	}
	logs, err := e.client.SlowLogGet(ctx, 1000).Result()
	if err != nil {
		return nil, err
	}
	slices.Reverse(logs) // it came newest first
	addDurations(all, logs)
	return all, nil
}

// addDurations gives the durations in the slow log, oldest first, to the commands that they belong to. A command that
// is not in the log, which is reset a moment after MONITOR was read, keeps the duration that it has.
func addDurations(all []observed, logs []redis.SlowLog) {
	next := 0
	for _, log := range logs {
		for i := next; i < len(all); i++ {
			if !all[i].script && logged(all[i].words, log.Args) {
				all[i].ran, next = log.Duration, i+1
				break
			}
		}
	}
}

// The slow log keeps 32 words of a command and 128 bytes of a word, and says in the last of each how much it left out.
var leftOut = regexp.MustCompile(`\.\.\. \(\d+ more (bytes|arguments)\)$`)

// logged says whether words are those of a command that stands in the slow log as args.
func logged(words, args []string) bool {
	for i, arg := range args {
		if i == len(words) {
			return false
		}
		kept := leftOut.ReplaceAllString(arg, "")
		if kept == "" && arg != "" && i == len(args)-1 { // the rest of the words
			return true
		}
		if arg != words[i] && (kept == arg || !strings.HasPrefix(words[i], kept)) {
			return false
		}
	}
	return len(args) == len(words)
}

// monitored is a line of MONITOR: +1700000000.123456 [0 127.0.0.1:4711] "GET" "key", and [0 lua] for what a script
// does.
var monitored = regexp.MustCompile(`^\+(\d+)\.(\d{6}) \[\d+ ([^\]]*)\] (.*)$`)

// read returns what MONITOR has said so far, up to a command of our own.
func (e *redisObserver) read(ctx context.Context) ([]observed, error) {
	mark := rand.Text()
	if err := e.client.Echo(ctx, mark).Err(); err != nil {
		return nil, err
	}
	var all []observed
	for deadline := time.Now().Add(timeout); ; {
		line, err := e.line(deadline)
		if err != nil {
			return nil, fmt.Errorf("MONITOR of %s: %w", e.name, err)
		}
		m := monitored.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		words, ok := codec.RedisWords(m[4])
		if !ok {
			continue
		}
		if len(words) == 2 && words[1] == mark {
			return all, nil
		}
		seconds, _ := strconv.ParseInt(m[1], 10, 64) // digits, by the expression
		micros, _ := strconv.ParseInt(m[2], 10, 64)
		all = append(all, observed{
			server: e.name, at: time.UnixMicro(seconds*1e6 + micros), ran: Unknown, words: words, text: codec.RedisText(words),
			script: m[3] == "lua",
		})
	}
}

func (e *redisObserver) close() {
	_ = e.conn.Close()
	_ = e.client.Close()
}

// sqlObserver looks at what MySQL does: the general log says what came and when, the slow log with a threshold of 0 how
// long it took.
type sqlObserver struct{ db *gorm.DB }

// watchMySQL switches both logs on, for the sessions that begin from now on.
func watchMySQL(ctx context.Context, dsn string) (*sqlObserver, error) {
	db, err := backend.OpenSQL(dsn, 1)
	if err != nil {
		return nil, err
	}
	e := &sqlObserver{db}
	for _, statement := range []string{
		"SET GLOBAL log_output = 'TABLE'", "SET GLOBAL long_query_time = 0",
		"SET GLOBAL slow_query_log = ON", "SET GLOBAL general_log = ON",
	} {
		if err := db.WithContext(ctx).Exec(statement).Error; err != nil {
			e.close()
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
	}
	return e, nil
}

// forget begins a new look.
func (e *sqlObserver) forget(ctx context.Context) error {
	return errors.Join(
		e.db.WithContext(ctx).Exec("TRUNCATE TABLE mysql.general_log").Error,
		e.db.WithContext(ctx).Exec("TRUNCATE TABLE mysql.slow_log").Error,
	)
}

// sqlLogging bounds the wait for the slow log: a statement is entered when it has been answered.
const sqlLogging = 5 * time.Second

// look returns what the server has seen in a time, by its clock, which is ours: it runs on this machine.
func (e *sqlObserver) look(ctx context.Context, from, to time.Time) ([]observed, error) {
	for end := time.Now().Add(sqlLogging); ; {
		all, err := e.read(ctx, from, to)
		if err != nil {
			return nil, err
		}
		if time.Now().After(end) || !slices.ContainsFunc(all, func(s observed) bool { return s.ran == Unknown }) {
			return all, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// read matches the two logs, as far as they have been written.
func (e *sqlObserver) read(ctx context.Context, from, to time.Time) ([]observed, error) {
	var rows []struct {
		At   float64
		Text string
	}
	const general = `SELECT UNIX_TIMESTAMP(event_time) AS at,
			CONVERT(argument USING utf8mb4) AS text FROM mysql.general_log
		WHERE command_type IN ('Query', 'Execute') AND event_time BETWEEN FROM_UNIXTIME(?) AND FROM_UNIXTIME(?)
		ORDER BY event_time`
	if err := e.db.WithContext(ctx).Raw(general, unixTime(from), unixTime(to)).Scan(&rows).Error; err != nil {
		return nil, err
	}
	var took []struct {
		Micros int64
		Text   string
	}
	const slow = `SELECT CAST(FLOOR(TIME_TO_SEC(query_time)) * 1000000 + MICROSECOND(query_time) AS SIGNED) AS micros,
		CONVERT(sql_text USING utf8mb4) AS text FROM mysql.slow_log ORDER BY start_time`
	if err := e.db.WithContext(ctx).Raw(slow).Scan(&took).Error; err != nil {
		return nil, err
	}
	var all []observed
	for _, r := range rows {
		s := observed{server: "sql", at: time.UnixMicro(int64(r.At * 1e6)), ran: Unknown, text: codec.SQLText(r.Text)}
		if background(s.text) {
			continue
		}
		rest, ran := likeness(s.text), time.Duration(0) // the slow log has the statements of a packet one by one
		for i, t := range took {
			statement := strings.TrimSuffix(likeness(codec.SQLText(t.Text)), ";")
			if t.Micros < 0 || rest != statement && !strings.HasPrefix(rest, statement+";") {
				continue
			}
			ran += time.Duration(t.Micros) * time.Microsecond
			took[i].Micros = -1
			if rest = strings.TrimLeft(rest[len(statement):], "; "); rest == "" {
				s.ran = ran
				break
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// unixTime is a time as the server's FROM_UNIXTIME takes it, to the microsecond.
func unixTime(t time.Time) string { return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000) }

func (e *sqlObserver) close() {
	if pool, err := e.db.DB(); err == nil {
		_ = pool.Close()
	}
}

var unprintable = regexp.MustCompile(`[^\x20-\x7e]+`)

// likeness is a command without what the two sides may write in different ways.
func likeness(text string) string { return unprintable.ReplaceAllString(text, "?") }
