package wire_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/wire"
)

// tap puts a tap before a server.
func tap(t *testing.T, r *wire.Recorder, addr string, codec wire.Codec) string {
	t.Helper()
	tap, err := r.Tap("server", addr, codec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tap.Close)
	return tap.Addr
}

// recorded are the texts of the calls so far; each must have been answered.
func recorded(t *testing.T, r *wire.Recorder) (texts []string) {
	t.Helper()
	for _, c := range r.Between(time.Time{}, time.Now()) {
		if c.Server != "server" || !c.Answered.After(c.Sent) && !c.Push {
			t.Errorf("%s: on %s, sent %v, answered %v", c.Text, c.Server, c.Sent, c.Answered)
		}
		texts = append(texts, c.Text)
	}
	return texts
}

func want(t *testing.T, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// A tap that is closed has closed both of its connections, and a server that is not there is a connection that ends.
func TestTapEnds(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	tap, err := r.Tap("server", "127.0.0.1:1", wire.Redis)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: tap.Addr, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.Ping(ctx).Err(); err == nil || ctx.Err() != nil {
		t.Errorf("a ping to nobody: %v, %v; want an error at once", err, ctx.Err())
	}
	tap.Close()
	tap.Close()
	if err := c.Ping(ctx).Err(); err == nil {
		t.Error("a ping by a tap that is closed: no error")
	}
}
