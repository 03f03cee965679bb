package wire_test

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// delayed puts a delayed proxy before a server.
func delayed(t *testing.T, addr string, codec wire.Codec, by time.Duration) *wire.Proxy {
	t.Helper()
	p, err := wire.NewDelayed("server", addr, codec, by)
	testkit.Must(t, err)
	t.Cleanup(p.Close)
	return p
}

// A command and its answer are each delayed, and commands that are sent together are delayed together: all of them
// reach the server before the first answer is back.
func TestDelayIsALine(t *testing.T) {
	t.Parallel()
	const (
		by   = 500 * time.Millisecond // a busy machine may need it for many commands
		many = 100
	)
	s := testenv.Redis(t)
	p := delayed(t, s.Client.Options().Addr, codec.Redis, by)
	o := *s.Client.Options()
	o.Addr, o.PoolSize = p.Addr, 1
	c := testkit.Closing(t, redis.NewClient(&o))
	ping(t, c) // the connection is there
	for range 5 {
		before := time.Now()
		if ping(t, c); time.Since(before) < 2*by {
			t.Errorf("a ping took %v, want %v or more", time.Since(before), 2*by)
		}
	}

	var last int64
	for _, k := range p.Since(0) {
		last = k.ID
	}
	if _, err := c.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		for range many {
			pipe.Exists(t.Context(), s.Prefix+"stock:{101}")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	calls := slices.DeleteFunc(p.Since(last), func(k wire.Call) bool { return k.Setup })
	if len(calls) != many {
		t.Fatalf("%d calls, want %d", len(calls), many)
	}
	early := 0
	for _, k := range calls {
		if k.Sent.Before(calls[0].Answered) {
			early++
		}
		if took := k.Answered.Sub(k.Sent); took < by {
			t.Errorf("an answer passed %v after its command, want %v or more", took, by)
		}
	}
	if early != many {
		t.Errorf("%d of %d commands reached the server before the first answer passed, want all", early, many)
	}
}

func ping(t *testing.T, c *redis.Client) {
	t.Helper()
	ctx := testkit.Within(t, 30*time.Second)
	testkit.Must(t, c.Ping(ctx).Err())
}

// The end of a connection does not overtake data, in either direction.
func TestDelayedEnd(t *testing.T) {
	t.Parallel()
	const question, answer = "what is left?", "one item"
	server := listen(t)
	heard := make(chan string, 1)
	go func() {
		conn, err := server.Accept()
		if err != nil {
			heard <- err.Error()
			return
		}
		text, _ := io.ReadAll(conn)
		_, _ = io.WriteString(conn, answer)
		_ = conn.Close()
		heard <- string(text)
	}()
	p := delayed(t, server.Addr().String(), wire.Raw, 10*time.Millisecond)
	conn := dial(t, p.Addr)
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	_, err := io.WriteString(conn, question)
	testkit.Must(t, err)
	testkit.Must(t, conn.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != answer {
		t.Errorf("the client heard %q, %v, want %q", got, err, answer)
	}
	if text := <-heard; text != question {
		t.Errorf("the server heard %q, want %q", text, question)
	}
}

// Close does not wait for delayed data, and may be called again.
func TestDelayedClose(t *testing.T) {
	t.Parallel()
	server := listen(t)
	p := delayed(t, server.Addr().String(), wire.Raw, 24*time.Hour)
	conn := dial(t, p.Addr)
	far, err := server.Accept() // so that the proxy reads
	testkit.Must(t, err)
	defer func() { _ = far.Close() }()
	_, err = io.WriteString(conn, "never heard")
	testkit.Must(t, err)
	p.Close()
	p.Close()
	_ = far.SetDeadline(time.Now().Add(30 * time.Second))
	if text, _ := io.ReadAll(far); len(text) != 0 {
		t.Errorf("the server heard %q, want nothing", text)
	}
}

// BenchmarkDelay measures a ping over a round trip of 1 ms.
func BenchmarkDelay(b *testing.B) {
	s := testenv.Redis(b)
	p, err := wire.NewDelayed("redis", s.Client.Options().Addr, wire.Raw, 500*time.Microsecond)
	testkit.Must(b, err)
	b.Cleanup(p.Close)
	o := *s.Client.Options()
	o.Addr = p.Addr
	c := testkit.Closing(b, redis.NewClient(&o))
	for b.Loop() {
		testkit.Must(b, c.Ping(b.Context()).Err())
	}
}
