package wire_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

func named(command string) func(wire.Call) bool {
	return func(c wire.Call) bool { return strings.HasPrefix(c.Text, command+" ") }
}

// Turn sends new connections elsewhere. One on which an answer was held ends with it: its client does not use it once
// more.
func TestTurn(t *testing.T) {
	t.Parallel()
	p := redisProxy(t, redis.Options{})
	other, stock := testenv.Miniredis(t).Client, p.prefix+"stock"
	for round := range 400 {
		hold := p.Add(wire.Rule{Match: named("GET"), Answer: true})
		answered, ended := make(chan error, 1), make(chan error, 1)
		go func() {
			answered <- p.far.Get(t.Context(), stock).Err()
			ended <- p.far.Set(t.Context(), stock, round, 0).Err()
		}()
		<-hold.Reached()
		p.Turn(other.Options().Addr)
		hold.Pass()
		if err := <-answered; err != nil && !errors.Is(err, redis.Nil) {
			t.Fatalf("round %d: GET = %v, want its answer", round, err)
		}
		testkit.Mustf(t, <-ended, "round %d: the command after the answer went to a connection that had ended", round)
	}
	if first, second := p.near.Exists(t.Context(), stock).Val(), other.Exists(t.Context(), stock).Val(); first != 0 ||
		second != 1 {
		t.Errorf("%d keys at the old server and %d at the new one, want the new connection there", first, second)
	}
}

// The end of a client, which the proxy passes on, does not end a connection whose last answer is being written.
func TestTurnLeavesAnswerWhole(t *testing.T) {
	t.Parallel()
	const asked, size = "GET a\r\n", 16 << 20 // more than the buffers of a connection hold
	p, h, client, server := between(t, asked, wire.Rule{Answer: true})
	if _, err := io.ReadFull(server, make([]byte, len(asked))); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(server, "$%d\r\n%s\r\n", size, strings.Repeat("x", size)); err != nil {
		t.Fatal(err)
	}
	reached(t, h)
	p.Turn(listen(t).Addr().String())
	go h.Pass()
	_ = client.SetReadDeadline(time.Now().Add(enough))
	if _, err := io.ReadFull(client, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, client.(*net.TCPConn).CloseWrite())
	_ = server.SetReadDeadline(time.Now().Add(enough))
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the server reads %v, want the client's end", err)
	}
	rest, err := io.ReadAll(client)
	if want := len(fmt.Sprintf("$%d\r\n", size)) + size + len("\r\n") - 1; err != nil || len(rest) != want {
		t.Errorf("after the first byte of its answer the client reads %d bytes, %v, want %d", len(rest), err, want)
	}
}

// An answer that is dropped takes nothing with it that the server has sent before.
func TestDropLeavesEarlierAnswers(t *testing.T) {
	t.Parallel()
	const asked = "GET a\r\nGET b\r\n"
	_, h, client, server := between(t, asked, wire.Rule{Answer: true, Match: is("GET b")})
	_, err := io.ReadFull(server, make([]byte, len(asked)))
	testkit.Must(t, err)
	h.Drop(false)
	if _, err := io.WriteString(server, "+one\r\n+two\r\n"); err != nil { // both at once
		t.Fatal(err)
	}
	got := make([]byte, len("+one\r\n"))
	_ = client.SetReadDeadline(time.Now().Add(enough))
	if _, err := io.ReadFull(client, got); err != nil || string(got) != "+one\r\n" {
		t.Errorf("the client reads %q, %v, want the first answer", got, err)
	}
	_ = client.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := client.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after it the client reads %q, %v, want nothing", got[:n], err)
	}
}

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
	testkit.Must(t, err)
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
	p := newProxy(t, server.Addr, codec.ZooKeeper)
	c := openZooKeeper(t, p.Addr)
	_, _, err := c.Exists("/")
	testkit.Must(t, err)
	all := p.Sessions()
	if len(all) != 1 || len(all[0]) != 8+16 {
		t.Fatalf("Sessions = %x, want one with a number of 8 bytes and a password of 16", all)
	}
	if got, want := int64(binary.BigEndian.Uint64(all[0])), c.SessionID(); got != want {
		t.Errorf("the session is %x, want %x", got, want)
	}
}

// After Abandon the server sees the end of the connection only after it has answered: a server that reads both at once
// may not execute the command.
func TestAbandonedConnectionEndsAfterTheAnswer(t *testing.T) {
	t.Parallel()
	_, h, client, server := between(t, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n", wire.Rule{Match: named("SET")})
	reached(t, h)
	h.Abandon()
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after Abandon the client reads %v, want a reset", err)
	}
	h.Pass()
	r := bufio.NewReader(server)
	for range 7 {
		_, err := r.ReadString('\n')
		testkit.Must(t, err)
	}
	// Without the rule the end comes with the command, and is read here.
	_ = server.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if _, err := r.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("before the answer the server reads %v, want nothing yet", err)
	}
	_ = server.SetReadDeadline(time.Now().Add(30 * time.Second))
	_, err := io.WriteString(server, "+OK\r\n")
	testkit.Must(t, err)
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the answer the server reads %v, want the end", err)
	}
}
