package rig

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"lastitem/internal/localstack"
	"lastitem/internal/testenv"
	"lastitem/internal/wire"
)

// redlockNode is the second server of a lane in a test.
const redlockNode = "redlock 3"

// serversOnly returns a lane without replicas: Redis and redlockNode are its own, each actor has its proxies.
func serversOnly(t *testing.T, e Equipment) *Lane {
	t.Helper()
	testenv.Installed(t, localstack.Redis)
	stack, err := localstack.Start(t.Context(), localstack.Options{Only: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	s := &Servers{Stack: stack}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{localstack.Redis, redlockNode} {
		s.links = append(s.links, link{server: name, codec: wire.Redis, url: "redis://default:secret@127.0.0.1:1/0", addr: "127.0.0.1:1"})
	}
	e.Own = localstack.Redis + "," + redlockNode
	l := &Lane{TTL: time.Second, servers: s, links: s.links, back: map[*localstack.Clock]time.Duration{}}
	if err := l.startOwn(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]**Actor{"A": &l.A, "B": &l.B, "C": &l.C} {
		if *a, err = newActor(l, name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*a).close)
	}
	return l
}

// tell sends a command to one of the lane's own servers, bypassing the proxies.
func tell(t *testing.T, l *Lane, server string, words ...string) string {
	t.Helper()
	answer, err := l.Tell(t.Context(), server, words...)
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return answer
}

// pttl returns how many milliseconds a key has left; -1 = it has no TTL, -2 = there is no such key.
func pttl(t *testing.T, l *Lane, server, key string) int {
	t.Helper()
	ms, err := strconv.Atoi(tell(t, l, server, "PTTL", key))
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

// client is a connection through an actor's proxy.
type client struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func dial(t *testing.T, a *Actor, server string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", a.proxies[server].Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &client{t, conn, bufio.NewReader(conn)}
	if got := c.do("AUTH", "secret"); got != "OK" {
		t.Fatalf("AUTH = %q", got)
	}
	return c
}

func (c *client) send(words ...string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, respCommand(words)); err != nil {
		c.t.Fatal(err)
	}
}

// read returns the next answer; "" = none came in time, or the connection has ended.
func (c *client) read(within time.Duration) (string, error) {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		c.t.Fatal(err)
	}
	var all []string
	err := readReply(c.r, &all)
	return strings.Join(all, " "), err
}

// generous is how long a test waits for something that must happen; moment is how long it watches for something that must not.
const (
	generous = 30 * time.Second
	moment   = 200 * time.Millisecond
)

func (c *client) do(words ...string) string {
	c.t.Helper()
	c.send(words...)
	answer, err := c.read(generous)
	if err != nil {
		c.t.Fatalf("%q: %v", words, err)
	}
	return answer
}

// wantSilence fails the test if an answer comes.
func (c *client) wantSilence(what string) {
	c.t.Helper()
	if answer, err := c.read(moment); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("%s: got %q, %v, want no answer", what, answer, err)
	}
}
