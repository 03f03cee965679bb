package gear

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/stack"
)

// sentinel is a redis-sentinel that watches the lane's pair.
type sentinel struct {
	Node
	number  int    // how many watches there were: each gets a name of its own
	watched string // the name of the current watch; "" = none
}

// downAfter is how long a server may be silent before Sentinel takes it for dead. A busy machine must not take a living
// server for dead.
const downAfter = time.Second

// newSentinel starts a sentinel that watches nothing yet.
func newSentinel(ctx context.Context, place *Place) (*sentinel, error) {
	path, err := stack.Find(stack.Redis)
	if err != nil {
		return nil, err
	}
	s := new(sentinel)
	name := fmt.Sprintf("lane %d sentinel", place.Number)
	s.dir = filepath.Join(place.Stack.Dir, strings.ReplaceAll(name, " ", "-"))
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(s.dir, "sentinel.conf") // Sentinel rewrites it
	if err := os.WriteFile(file, fmt.Appendf(nil, "bind 127.0.0.1\ndir %q\n", s.dir), 0o600); err != nil {
		return nil, err
	}
	s.child = stack.Child{
		Name: name,
		Argv: func(addr string) []string {
			_, port, _ := net.SplitHostPort(addr)
			return []string{path, file, "--port", port, "--sentinel"}
		},
		Ready: func(ctx context.Context, addr string) error {
			_, err := redisDo(ctx, addr, "", "PING")
			return err
		},
	}
	s.run, err = place.Stack.Spawn(ctx, s.child)
	return s, err
}

// monitor makes Sentinel watch the master at an address, and returns when Sentinel knows so many replicas of it.
func (s *sentinel) monitor(ctx context.Context, master, password string, replicas int) error {
	if err := s.forget(ctx); err != nil {
		return err
	}
	s.number++
	s.watched = fmt.Sprintf("shop%d", s.number)
	host, port, _ := net.SplitHostPort(master)
	if err := s.tell(ctx, "MONITOR", s.watched, host, port, "1"); err != nil {
		return err
	}
	if password != "" {
		if err := s.tell(ctx, "SET", s.watched, "auth-pass", password); err != nil {
			return err
		}
	}
	err := Until(ctx, "Sentinel to know the replicas", func() bool {
		all, err := s.Do(ctx, "SENTINEL", "REPLICAS", s.watched)
		return err == nil && strings.Count(all, " flags slave ") == replicas &&
			strings.Count(all, "master-link-status ok") == replicas
	})
	if err != nil {
		return err
	}
	// The short down-after is set only now: before Sentinel had the password it received only errors, and would have taken
	// the master for dead. The default is 30 s.
	return s.tell(ctx, "SET", s.watched, "failover-timeout", "3000", "down-after-milliseconds",
		strconv.FormatInt(downAfter.Milliseconds(), 10))
}

// tell sends a SENTINEL command.
func (s *sentinel) tell(ctx context.Context, words ...string) error {
	_, err := s.Do(ctx, append([]string{"SENTINEL"}, words...)...)
	return err
}

// forget ends the current watch.
func (s *sentinel) forget(ctx context.Context) error {
	if s.watched == "" {
		return nil
	}
	name := s.watched
	s.watched = ""
	return s.tell(ctx, "REMOVE", name)
}

// subscribe returns when the subscription is in force. It ends with ctx at the latest.
func (s *sentinel) subscribe(ctx context.Context, channel string) (*redis.PubSub, error) {
	client, err := dial(ctx, s.run.Addr, s.password)
	if err != nil {
		return nil, err
	}
	published := client.Subscribe(ctx, channel)
	context.AfterFunc(ctx, func() { _ = published.Close() })
	_, err = published.Receive(ctx)
	return published, err
}
