package stack

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alicebob/miniredis/v2"

	"lastitem/say/redact"
	"lastitem/say/text"
)

// startRedis fills in s.Redis. With Auto a real server that does not start gives way to the embedded one, and the log
// says why; the same holds for SQL and the balancer.
func (s *Stack) startRedis(ctx context.Context) error {
	if s.opts.Redis != "" {
		s.Redis = given(Redis, s.opts.Redis)
		s.opts.Log("%s: %s, as given", Redis, redact.Address(s.opts.Redis))
		return nil
	}
	path, why, err := s.opts.choose(Redis)
	if err != nil {
		return err
	}
	if path != "" {
		s.Redis, why, err = s.launchReal(ctx, redisServer(path, Redis, redisKind(path), &s.opts), path)
		if err != nil || why == "" {
			return err
		}
		s.insteadOf(Redis, "miniredis", redisKind(path), why)
	}
	s.Redis, err = s.procs.launch(ctx, miniredisServer(&s.opts))
	if err != nil {
		return err
	}
	s.opts.Log("%s: %s at %s, because: %s", Redis, s.Redis.Kind, s.Redis.Addr, why)
	return nil
}

// redisKind is the name and the version of a Redis, or of the Valkey that stands in for one.
func redisKind(path string) string {
	number, said := version(path, "--version")
	if strings.Contains(said, "Valkey") {
		return "valkey-server " + number
	}
	return "redis-server " + number
}

// redisServer is a real Redis that keeps nothing on disk. It has a password, because a Redis on loopback obeys every
// user of the machine and writes files with our rights; the password is in a file that only we can read, not in 'ps'.
func redisServer(path, name, kind string, o *Options) server {
	password := cmp.Or(o.redisPassword, secret())
	loses := text.Of("its data were in memory")
	switch {
	case o.persistent():
		loses = text.Text{}
	case name != Redis:
		loses = text.Of("its locks were in memory")
	}
	return server{
		name:  name,
		kind:  kind,
		loses: loses,
		// With a user name, since redis-cli sends an empty one otherwise.
		url: func(addr string) string { return "redis://default:" + password + "@" + addr + "/0" },
		setup: func(at site) ([]string, error) {
			dir := at.file(strings.ReplaceAll(name, " ", "-")) // its own: with appendonly yes its data are there
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, err
			}
			file := filepath.Join(dir, "redis.conf")
			conf := fmt.Sprintf("bind 127.0.0.1\nport %s\nrequirepass %s\ndir %q\nsave \"\"\nappendonly no\ndaemonize no\n",
				at.port(), password, dir)
			for _, line := range o.RedisConf {
				conf += line + "\n"
			}
			return append([]string{path, file}, o.RedisArgs...), os.WriteFile(file, []byte(conf), 0o600)
		},
		ready: func(ctx context.Context, addr string) error {
			return answers(ctx, addr, command("AUTH", password), func(line []byte) bool {
				return bytes.HasPrefix(line, []byte("+OK"))
			})
		},
	}
}

// miniredis is the embedded one, a process of ours so that replicas can share it.
func miniredisServer(o *Options) server {
	return server{
		name:  "redis",
		kind:  "embedded miniredis",
		loses: text.Of("its data were in memory"),
		url:   func(addr string) string { return "redis://" + addr + "/0" },
		setup: func(at site) ([]string, error) {
			return []string{o.Binary, "embedded-redis", "--listen", at.addr}, nil
		},
		ready: func(ctx context.Context, addr string) error {
			return answers(ctx, addr, command("PING"), func(line []byte) bool { return bytes.HasPrefix(line, []byte("+PONG")) })
		},
	}
}

// command writes a command in Redis's protocol; miniredis does not read the inline form.
func command(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// StartMiniredis starts an embedded Redis on addr ("127.0.0.1:0" takes a free port) in this process. Its keys expire as
// real time passes, which miniredis by itself leaves to the test. It has no SPUBLISH, SSUBSCRIBE, WAIT or "INFO
// server". The caller closes it.
func StartMiniredis(addr string) (*miniredis.Miniredis, error) {
	m := miniredis.NewMiniRedis()
	if err := m.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("stack: embedded Redis: %w", err)
	}
	// Exact: TTLs are brought up to date before every command, so no key lives or dies by the width of a tick.
	m.ClockTTL(true)
	return m, nil
}
