package wire_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
	"lastitem/internal/wire"
)

// beforeRedis is a proxy before a Redis, a client of it that sends nothing twice, and one that goes past it.
func beforeRedis(t *testing.T) (*wire.Proxy, *redis.Client, *redis.Client) {
	t.Helper()
	o, err := redis.ParseURL(testenv.Miniredis(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	past := redis.NewClient(o)
	p, err := wire.NewProxy("redis", o.Addr, wire.Redis)
	if err != nil {
		t.Fatal(err)
	}
	by := *o
	by.Addr, by.MaxRetries = p.Addr, -1
	c := redis.NewClient(&by)
	t.Cleanup(func() {
		_ = c.Close()
		_ = past.Close()
		p.Close()
	})
	return p, c, past
}

func named(command string) func(wire.Call) bool {
	return func(c wire.Call) bool { return strings.HasPrefix(c.Text, command+" ") }
}

// A command that its client has given up arrives when it is let pass, and not before.
func TestAbandonedCommandArrivesLater(t *testing.T) {
	t.Parallel()
	p, c, past := beforeRedis(t)
	hold := p.Add(wire.Rule{Match: named("SET")})
	failed := make(chan error, 1)
	go func() { failed <- c.Set(t.Context(), "stock", 9, 0).Err() }()
	<-hold.Reached()
	hold.Abandon()
	if err := <-failed; err == nil {
		t.Fatal("the client has an answer to a command that is held")
	}
	if n := past.Exists(t.Context(), "stock").Val(); n != 0 {
		t.Fatal("the command has arrived before it was let pass")
	}
	hold.Pass()
	wait.Until(t, "the command has arrived", func() bool { return past.Get(t.Context(), "stock").Val() == "9" })
}

// A connection that was turned to another server ends with the answer that was held on it: its client does not use it once more.
func TestTurnedConnectionEndsWithItsAnswer(t *testing.T) {
	t.Parallel()
	p, c, _ := beforeRedis(t)
	other := testenv.Miniredis(t)
	addr := p.Addr
	for round := range 400 {
		hold := p.Add(wire.Rule{Match: named("GET"), Answer: true})
		ended := make(chan error, 1)
		go func() {
			_ = c.Get(t.Context(), "stock").Err() // whatever it says
			ended <- c.Set(t.Context(), "stock", round, 0).Err()
		}()
		<-hold.Reached()
		o, err := redis.ParseURL(other.URL)
		if err != nil {
			t.Fatal(err)
		}
		p.Turn(o.Addr)
		hold.Pass()
		if err := <-ended; err != nil {
			t.Fatalf("round %d: the command after the answer went to a connection that had ended (%s): %v", round, addr, err)
		}
	}
}
