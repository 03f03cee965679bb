package wire_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
	"lastitem/internal/wire"
)

func named(command string) func(wire.Call) bool {
	return func(c wire.Call) bool { return strings.HasPrefix(c.Text, command+" ") }
}

// A command that its client has given up arrives when it is let pass, and not before.
func TestAbandonedCommandArrivesLater(t *testing.T) {
	t.Parallel()
	p := redisProxy(t, redis.Options{})
	stock := p.prefix + "stock"
	hold := p.Add(wire.Rule{Match: named("SET")})
	failed := make(chan error, 1)
	go func() { failed <- p.far.Set(t.Context(), stock, 9, 0).Err() }()
	<-hold.Reached()
	hold.Abandon()
	if err := <-failed; err == nil {
		t.Fatal("the client has an answer to a command that is held")
	}
	if n := p.near.Exists(t.Context(), stock).Val(); n != 0 {
		t.Fatal("the command has arrived before it was let pass")
	}
	hold.Pass()
	wait.Until(t, "the command has arrived", func() bool { return p.near.Get(t.Context(), stock).Val() == "9" })
}

// A connection that was turned to another server ends with the answer that was held on it: its client does not use it once more.
func TestTurnedConnectionEndsWithItsAnswer(t *testing.T) {
	t.Parallel()
	p := redisProxy(t, redis.Options{})
	other := testenv.Miniredis(t).Client.Options().Addr
	for round := range 400 {
		hold := p.Add(wire.Rule{Match: named("GET"), Answer: true})
		ended := make(chan error, 1)
		go func() {
			_ = p.far.Get(t.Context(), "stock").Err() // whatever it says
			ended <- p.far.Set(t.Context(), "stock", round, 0).Err()
		}()
		<-hold.Reached()
		p.Turn(other)
		hold.Pass()
		if err := <-ended; err != nil {
			t.Fatalf("round %d: the command after the answer went to a connection that had ended: %v", round, err)
		}
	}
}

// An answer that is dropped takes nothing with it that the server has sent before.
func TestDropLeavesEarlierAnswers(t *testing.T) {
	t.Parallel()
	l := listen(t)
	p := newProxy(t, l.Addr().String(), wire.Redis)
	h := p.Add(wire.Rule{Answer: true, Match: is("GET b")})
	client, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	const asked = "GET a\r\nGET b\r\n"
	if _, err := io.WriteString(client, asked); err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	if _, err := io.ReadFull(server, make([]byte, len(asked))); err != nil {
		t.Fatal(err)
	}
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
