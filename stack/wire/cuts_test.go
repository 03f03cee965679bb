package wire_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
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

const enough = 30 * time.Second

// proxied is a proxy before a Redis, and a client of it with a name of its own, which gives up soon and asks once.
type proxied struct {
	*wire.Proxy
	far    *redis.Client
	near   *redis.Client // past the proxy
	prefix string
}

func redisProxy(t *testing.T, o redis.Options) *proxied {
	t.Helper()
	s := testenv.Redis(t)
	base, err := redis.ParseURL(s.URL)
	testkit.Must(t, err)
	p := newProxy(t, base.Addr, codec.Redis)
	o.Addr, o.Username, o.Password, o.DB = p.Addr, base.Username, base.Password, base.DB
	o.MaxRetries, o.ContextTimeoutEnabled, o.ClientName = -1, true, "c-"+strings.Trim(s.Prefix, "t:")
	o.ReadTimeout = cmp.Or(o.ReadTimeout, enough)
	far := testkit.Closing(t, redis.NewClient(&o))
	return &proxied{p, far, s.Client, s.Prefix}
}

// listen returns a listener on a free port of the loopback interface, which closes with the test.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l := testkit.Listen(t)
	return l
}

// dial connects to an address until the test ends.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c := testkit.Dial(t, addr)
	return c
}

// between is a proxy that holds what a rule says, and both ends of a connection on which the client has sent text.
func between(t *testing.T, text string, rule wire.Rule) (p *wire.Proxy, hold *wire.Hold, client, server net.Conn) {
	t.Helper()
	l := listen(t)
	p = newProxy(t, l.Addr().String(), codec.Redis)
	hold, client = p.Add(rule), dial(t, p.Addr)
	_, err := io.WriteString(client, text)
	testkit.Must(t, err)
	server, err = l.Accept()
	testkit.Must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return p, hold, client, server
}

// newProxy is a proxy that must not have met what it cannot read; a test that has it do so forgets that.
func newProxy(t *testing.T, addr string, codec wire.Codec) *wire.Proxy {
	t.Helper()
	p, err := wire.NewProxy("server", addr, codec)
	testkit.Must(t, err)
	t.Cleanup(func() {
		testkit.Check(t, p.Err())
		p.Close()
	})
	return p
}

func reached(t *testing.T, h *wire.Hold) {
	t.Helper()
	select {
	case <-h.Reached():
	case <-time.After(enough):
		t.Fatal("nothing came that could be held")
	}
}

// holdWrites has a first write held, and the answer to a second: meanwhile the server has only the latter, and in the
// end both. there counts what the server has.
func holdWrites(t *testing.T, p *wire.Proxy, match func(wire.Call) bool, write func(n int) error,
	there func() (int64, error)) {
	t.Helper()
	for n, meanwhile := range []int64{0, 2} {
		h := p.Add(wire.Rule{Answer: n == 1, Match: match})
		done := make(chan error, 1)
		go func() { done <- write(n) }()
		reached(t, h)
		if got, err := there(); err != nil || got != meanwhile {
			t.Errorf("while write %d is held there are %d, %v; want %d", n, got, err, meanwhile)
		}
		h.Pass()
		testkit.Is(t, <-done, nil, "write %d", n)
		if got, err := there(); err != nil || got != int64(n+1) {
			t.Errorf("after write %d there are %d, %v", n, got, err)
		}
	}
}

// is accepts the first command with a pattern.
func is(pattern string) func(wire.Call) bool {
	return func(c wire.Call) bool { return c.Pattern == pattern }
}

func patterns(calls []wire.Call) (all []string) {
	for _, c := range calls {
		all = append(all, c.Pattern)
	}
	return all
}

// The four cuts at a command, each as a reset and as silence: what the server has done, and what the client hears.
func TestCuts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		answer        bool
		how           func(*wire.Hold)
		executed      bool // in the end
		before        bool // while it is held
		reset, silent bool // for the client
	}{
		{name: "command held", how: (*wire.Hold).Pass, executed: true},
		{name: "command dropped by a reset", how: func(h *wire.Hold) { h.Drop(true) }, reset: true},
		{name: "command dropped in silence", how: func(h *wire.Hold) { h.Drop(false) }, silent: true},
		{name: "answer held", answer: true, how: (*wire.Hold).Pass, executed: true, before: true},
		{name: "answer lost by a reset", answer: true, how: func(h *wire.Hold) {
			h.Drop(true)
		}, executed: true, before: true, reset: true},
		{name: "answer lost in silence", answer: true, how: func(h *wire.Hold) {
			h.Drop(false)
		}, executed: true, before: true, silent: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := redisProxy(t, redis.Options{PoolSize: 1, ReadTimeout: -1})
			key := p.prefix + "k"
			h := p.Add(wire.Rule{Answer: c.answer, Match: func(c wire.Call) bool { return slices.Contains(c.Words, key) }})
			got := make(chan error, 1)
			patience := enough
			if c.silent {
				patience = 10 * time.Second
			}
			ctx := testkit.Within(t, patience)
			go func() { got <- p.far.Set(ctx, key, "1", 0).Err() }()
			reached(t, h)
			if call := h.Call(); call.Words[0] != "set" || call.Sent.IsZero() == c.answer || call.Server != "server" ||
				call.Conn == 0 {
				t.Errorf("held: %+v", call)
			}
			if got := patterns(p.Unanswered()); !slices.Equal(got, []string{"SET " + codec.Key(key)}) {
				t.Errorf("Unanswered() = %q", got)
			}
			if n := p.near.Exists(t.Context(), key).Val(); (n == 1) != c.before {
				t.Errorf("while it is held there are %d keys", n)
			}
			c.how(h)
			err := <-got
			var timeout net.Error
			late := errors.As(err, &timeout) && timeout.Timeout()
			switch {
			case c.reset && (err == nil || late):
				t.Errorf("SET = %v, want the connection's end", err)
			case c.silent && !late:
				t.Errorf("SET = %v, want a time-out", err)
			case !c.reset && !c.silent && err != nil:
				t.Errorf("SET = %v", err)
			}
			testkit.Until(t, "nothing is unanswered", func() bool { return len(p.Unanswered()) == 0 })
			if n := p.near.Exists(t.Context(), key).Val(); (n == 1) != c.executed {
				t.Errorf("in the end there are %d keys", n)
			}
			testkit.Is(t, p.far.Set(t.Context(), key, "2", 0).Err(), nil, "the next SET")
		})
	}
}

// A client whose command is dropped by a reset reads just that.
func TestDropResets(t *testing.T) {
	t.Parallel()
	p := newProxy(t, testenv.Miniredis(t).Client.Options().Addr, codec.Redis)
	h := p.Add(wire.Rule{})
	conn := dial(t, p.Addr)
	_, err := conn.Write([]byte("SET a b\r\n"))
	testkit.Must(t, err)
	reached(t, h)
	h.Drop(true)
	_ = conn.SetReadDeadline(time.Now().Add(enough))
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection reads %d bytes, %v; want a reset", n, err)
	}
}

// What the client of a held command gives up arrives when it is let pass: a late write.
func TestLateWrite(t *testing.T) {
	t.Parallel()
	p := redisProxy(t, redis.Options{ReadTimeout: 3 * time.Second})
	key := p.prefix + "k"
	h := p.Add(wire.Rule{Match: is("SET " + codec.Key(key))})
	if err := p.far.Set(t.Context(), key, "late", 0).Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("SET without an answer = %v", err)
	}
	reached(t, h)
	if n := len(p.Unanswered()); n != 1 {
		t.Errorf("%d calls are unanswered, want the held one", n)
	}
	h.Pass()
	h.Pass()
	testkit.Until(t, "the write arrives", func() bool { return p.near.Get(t.Context(), key).Val() == "late" })
	testkit.Until(t, "it is answered", func() bool { return len(p.Unanswered()) == 0 })
}

// A pipeline is cut between its commands.
func TestPipelineIsCut(t *testing.T) {
	t.Parallel()
	p := redisProxy(t, redis.Options{PoolSize: 1})
	name := func(i int) string { return fmt.Sprintf("%sk%c", p.prefix, 'a'+rune(i)) }
	held := p.Add(wire.Rule{Match: func(c wire.Call) bool { return slices.Contains(c.Words, name(1)) }})
	answer := p.Add(wire.Rule{Answer: true, Match: func(c wire.Call) bool { return slices.Contains(c.Words, name(2)) }})
	done := make(chan error, 1)
	go func() {
		_, err := p.far.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for i := range 4 {
				pipe.Set(t.Context(), name(i), i, 0)
			}
			return nil
		})
		done <- err
	}()
	there := func(n int64) bool { return p.near.Exists(t.Context(), name(0), name(1), name(2), name(3)).Val() == n }
	reached(t, held)
	testkit.Until(t, "the first of four has arrived", func() bool { return there(1) })
	if n := len(p.Unanswered()); n < 3 {
		t.Errorf("%d calls are unanswered, want those from the held one on", n)
	}
	held.Pass()
	reached(t, answer)
	testkit.Until(t, "all have arrived", func() bool { return there(4) })
	select {
	case err := <-done:
		t.Fatalf("the pipeline returned (%v) without an answer", err)
	default:
	}
	answer.Pass()
	testkit.Is(t, <-done, nil, "the pipeline")
	calls := p.Since(0)
	for i := range calls[1:] {
		if calls[i].ID >= calls[i+1].ID {
			t.Errorf("%s has ID %d, %s after it %d", calls[i].Text, calls[i].ID, calls[i+1].Text, calls[i+1].ID)
		}
	}
	if last := calls[len(calls)-1]; len(p.Since(last.ID-1)) != 1 || len(p.Since(last.ID)) != 0 {
		t.Errorf("Since(%d) = %v", last.ID-1, p.Since(last.ID-1))
	}
	p.Forget(calls[0].ID)
	if left := p.Since(0); len(left) != len(calls)-1 {
		t.Errorf("after Forget of one there are %d of %d", len(left), len(calls))
	}
}

// A rule with Every holds all that it accepts until it is over; a canceled one holds nothing.
func TestEveryAndCancel(t *testing.T) {
	t.Parallel()
	p := redisProxy(t, redis.Options{})
	p.Add(wire.Rule{Match: is("INCR " + codec.Key(p.prefix+"n"))}).Cancel()
	every := p.Add(wire.Rule{Match: is("INCR " + codec.Key(p.prefix+"n")), Every: true})
	done := make(chan error, 3)
	for range 3 {
		go func() { done <- p.far.Incr(t.Context(), p.prefix+"n").Err() }()
	}
	testkit.Until(t, "three are held", func() bool { return len(p.Unanswered()) == 3 })
	reached(t, every)
	if n := p.near.Exists(t.Context(), p.prefix+"n").Val(); n != 0 {
		t.Error("one has arrived")
	}
	every.Cancel() // where something is held it lets it go
	for range 3 {
		testkit.Check(t, <-done)
	}
	testkit.Check(t, p.far.Incr(t.Context(), p.prefix+"n").Err())
}

// While a proxy is severed nothing passes and new connections hear nothing; then all of them are reset.
func TestSever(t *testing.T) {
	t.Parallel()
	p := redisProxy(t, redis.Options{PoolSize: 1, ReadTimeout: 3 * time.Second})
	testkit.Must(t, p.far.Set(t.Context(), p.prefix+"k", "1", 0).Err())
	p.Sever(true)
	var timeout net.Error
	for range 2 { // on the connection that is there, and on a new one
		if err := p.far.Set(t.Context(), p.prefix+"k", "2", 0).Err(); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("SET = %v, want a time-out", err)
		}
	}
	conn := dial(t, p.Addr)
	_, err := conn.Write([]byte("PING\r\n"))
	testkit.Must(t, err)
	p.Sever(false)
	_ = conn.SetReadDeadline(time.Now().Add(enough))
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection reads %d, %v; want a reset", n, err)
	}
	testkit.Until(t, "a new connection works", func() bool {
		return p.far.Set(t.Context(), p.prefix+"k", "3", 0).Err() == nil
	})
	if got := p.near.Get(t.Context(), p.prefix+"k").Val(); got != "3" {
		t.Errorf("the key is %s, want 3: nothing of the partition's time", got)
	}
}

// After a client was killed, what it had not delivered is dropped, and the server knows its connections no more.
func TestDiscard(t *testing.T) {
	t.Parallel()
	p := redisProxy(t, redis.Options{})
	if err := p.far.Ping(t.Context()).Err(); err != nil { // it lives on
		t.Fatal(err)
	}
	held := p.Add(wire.Rule{Match: is("SET " + codec.Key(p.prefix+"k"))})
	victim := redis.NewClient(func() *redis.Options { o := *p.far.Options(); o.ClientName += "-victim"; return &o }())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- victim.Set(ctx, p.prefix+"k", "1", 0).Err() }()
	reached(t, held)
	known := func() bool {
		return strings.Contains(p.near.ClientList(t.Context()).Val(), "name="+victim.Options().ClientName)
	}
	if !known() {
		t.Fatal("the server does not know the victim")
	}
	_ = victim.Close()
	cancel()
	<-done
	bounded := testkit.Within(t, enough)
	testkit.Must(t, p.Discard(bounded))
	if known() {
		t.Error("the server knows the victim's connection after Discard")
	}
	held.Pass()
	if n := p.near.Exists(t.Context(), p.prefix+"k").Val(); n != 0 || len(p.Unanswered()) != 0 {
		t.Errorf("%d keys, unanswered %v", n, p.Unanswered())
	}
	if err := p.far.Ping(t.Context()).Err(); err != nil || len(p.Since(0)) == 0 {
		t.Errorf("the other client: %v", err)
	}
}

// Discard gives up with its context where a server keeps the connection.
func TestDiscardIsBounded(t *testing.T) {
	t.Parallel()
	p, _, client, server := between(t, "PING\r\n", wire.Rule{Match: is("nothing")})
	if _, err := server.Read(make([]byte, 1)); err != nil { // the proxy has dialed
		t.Fatal(err)
	}
	_ = client.Close()
	ctx := testkit.Within(t, 50*time.Millisecond)
	if err := p.Discard(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Discard() = %v, want that it gave up", err)
	}
}
