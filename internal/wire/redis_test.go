package wire_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/testenv"
	"lastitem/internal/wire"
)

func TestRedis(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	o, err := redis.ParseURL(testenv.Miniredis(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	o.Addr = tap(t, &r, o.Addr, wire.Redis)
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	sub := c.Subscribe(t.Context(), "news")
	t.Cleanup(func() { _ = sub.Close() })
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sub.Ping(t.Context()); err != nil { // no part of what the others send
		t.Fatal(err)
	}
	if err := c.Set(t.Context(), "stock:{101}", `{"a b": 'c'}`, 0).Err(); err != nil {
		t.Fatal(err)
	}
	pipe := c.Pipeline()
	pipe.Get(t.Context(), "stock:{101}")
	pipe.Del(t.Context(), "stock:{101}", "")
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Publish(t.Context(), "news", "it's sold").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := sub.ReceiveMessage(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, []string{
		`SET stock:{101} "{\"a b\": 'c'}"`, `GET stock:{101}`, `DEL stock:{101} ""`, `PUBLISH news "it's sold"`,
	}, recorded(t, &r))
	r.Forget()
	if left := r.Between(time.Time{}, time.Now()); len(left) > 0 {
		t.Errorf("after Forget: %v", left)
	}
}

func TestRedisWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		`"set" "a b" "\x00\xff\"\\\n"`: {"set", "a b", "\x00\xff\"\\\n"},
		`"ping"`:                       {"ping"},
		`ping`:                         nil,
		`"ping`:                        nil,
		``:                             nil,
	} {
		got, ok := wire.RedisWords(line)
		if diff := cmp.Diff(want, got); diff != "" || ok != (want != nil) {
			t.Errorf("RedisWords(%s) = %q, %t, want %q", line, got, ok, want)
		}
	}
}
