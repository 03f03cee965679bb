package wire_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/testenv"
	"lastitem/internal/wire"
)

// Hold.From is the client address that the server sees on the connection of the held command.
func TestHoldNamesTheServersSideOfTheConnection(t *testing.T) {
	t.Parallel()
	p := redisProxy(t, redis.Options{})
	h := p.Add(wire.Rule{Match: named("GET")})
	if from := h.From(); from != "" {
		t.Errorf("From before anything is held = %q, want none", from)
	}
	done := make(chan error, 1)
	go func() { done <- p.far.Get(t.Context(), p.prefix+"x").Err() }()
	reached(t, h)
	from := h.From()
	clients, err := p.near.ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	if from == "" || !strings.Contains(clients, " addr="+from+" ") {
		t.Errorf("From = %q, which the server does not know:\n%s", from, clients)
	}
	h.Pass()
	if err := <-done; !errors.Is(err, redis.Nil) {
		t.Errorf("GET: %v, want no value", err)
	}
}

// Sessions returns the id and the password that ZooKeeper granted.
func TestZooKeeperSessionIsSeen(t *testing.T) {
	t.Parallel()
	server := testenv.ZooKeeper(t)
	p := newProxy(t, server.Addr, wire.ZooKeeper)
	c, _, err := zk.Connect([]string{p.Addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, _, err := c.Exists("/"); err != nil {
		t.Fatal(err)
	}
	all := p.Sessions()
	if len(all) != 1 || len(all[0]) != 8+16 {
		t.Fatalf("Sessions = %x, want one with a number of 8 bytes and a password of 16", all)
	}
	if got, want := int64(binary.BigEndian.Uint64(all[0])), c.SessionID(); got != want {
		t.Errorf("the session is %x, want %x", got, want)
	}
}

// After Abandon the server sees the end of the connection only after it has answered: a server that reads both at once may not execute the command.
func TestAbandonedConnectionEndsAfterTheAnswer(t *testing.T) {
	t.Parallel()
	l := listen(t)
	p := newProxy(t, l.Addr().String(), wire.Redis)
	h := p.Add(wire.Rule{Match: named("SET")})
	client, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if _, err := io.WriteString(client, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"); err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	reached(t, h)
	h.Abandon()
	h.Pass()
	r := bufio.NewReader(server)
	for range 7 {
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	// Without the rule the end comes with the command, and is read here.
	_ = server.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if _, err := r.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("before the answer the server reads %v, want nothing yet", err)
	}
	_ = server.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(server, "+OK\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the answer the server reads %v, want the end", err)
	}
}
