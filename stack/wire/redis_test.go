package wire_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

func TestRedis(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	o, err := redis.ParseURL(testenv.Miniredis(t).URL)
	testkit.Must(t, err)
	o.Addr = tap(t, &r, o.Addr, codec.Redis)
	c := testkit.Closing(t, redis.NewClient(o))
	sub := testkit.Closing(t, c.Subscribe(t.Context(), "news"))
	_, err = sub.Receive(t.Context())
	testkit.Must(t, err)
	if err := sub.Ping(t.Context()); err != nil { // no part of what the others send
		t.Fatal(err)
	}
	testkit.Must(t, c.Set(t.Context(), "stock:{101}", `{"a b": 'c'}`, 0).Err())
	pipe := c.Pipeline()
	pipe.Get(t.Context(), "stock:{101}")
	pipe.Del(t.Context(), "stock:{101}", "")
	_, err = pipe.Exec(t.Context())
	testkit.Must(t, err)
	testkit.Must(t, c.Publish(t.Context(), "news", "it's sold").Err())
	_, err = sub.ReceiveMessage(t.Context())
	testkit.Must(t, err)
	want(t, []string{
		`SUBSCRIBE news`, `SET stock:{101} "{\"a b\": 'c'}"`, `GET stock:{101}`, `DEL stock:{101} ""`,
		`PUBLISH news "it's sold"`, `MESSAGE news "it's sold"`,
	}, recorded(t, &r))
}

// Every reply is that of its own command, whatever it looks like, in both versions of the protocol.
func TestRedisReplies(t *testing.T) {
	t.Parallel()
	for _, version := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP %d", version), func(t *testing.T) {
			t.Parallel()
			p := redisProxy(t, redis.Options{Protocol: version, PoolSize: 1})
			ctx, key := t.Context(), p.prefix+"k"
			commands := [][]any{
				{"HSET", key, "f", "1", "g", "2.5"}, {"HGETALL", key}, {"GET", p.prefix + "none"}, {"INCR", key},
				{"EVAL", "return {1, {2, {'x', false}}, redis.status_reply('ok'), {}}", 0},
				{"EVAL", "return redis.error_reply('MINE it')", 0},
				{"SET", p.prefix + "big", strings.Repeat("x\r\n", 400_000)}, {"GET", p.prefix + "big"},
				{"ZADD", p.prefix + "z", 1.5, "m"},
				{"ZRANGE", p.prefix + "z", 0, -1, "WITHSCORES"}, {"SET", p.prefix + "e", ""}, {"GET", p.prefix + "e"},
			}
			for _, c := range commands {
				_ = p.far.Do(ctx, c...).Err()
			}
			if _, err := p.far.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for i := range 1000 {
					pipe.RPush(ctx, p.prefix+"l", i)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if n := p.far.LRange(ctx, p.prefix+"l", 0, -1).Val(); len(n) != 1000 || p.Err() != nil {
				t.Fatalf("%d elements, %v", len(n), p.Err())
			}
			var failed []string
			n := 0
			for _, c := range p.Since(0) {
				if c.Setup {
					continue
				}
				if n++; c.Failed != "" {
					failed = append(failed, c.Failed)
				}
				if c.Answered.Before(c.Sent) || c.Sent.IsZero() || c.Name != p.far.Options().ClientName {
					t.Errorf("%.40s: %v to %v, of %q", c.Text, c.Sent, c.Answered, c.Name)
				}
			}
			want(t, []string{"WRONGTYPE", "MINE"}, failed)
			if n != len(commands)+1001 || len(p.Unanswered()) > 0 {
				t.Errorf("%d calls, unanswered %v", n, p.Unanswered())
			}
		})
	}
}

// A transaction is one call, and nothing of it happens while that is held.
func TestRedisTransaction(t *testing.T) {
	t.Parallel()
	p := redisProxy(t, redis.Options{})
	ctx, a := t.Context(), p.prefix+"a"
	h := p.Add(wire.Rule{Match: func(c wire.Call) bool { return strings.HasSuffix(c.Pattern, "; EXEC") }})
	done := make(chan error, 1)
	go func() {
		_, err := p.far.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, a, "1", 0)
			pipe.RPush(ctx, p.prefix+"b", "2")
			return nil
		})
		done <- err
	}()
	reached(t, h)
	key := codec.Key(p.prefix)
	if got, want := h.Call().Pattern, "MULTI; SET "+key+"a; RPUSH "+key+"b; EXEC"; got != want ||
		!slices.Contains(h.Call().Words, a) {
		t.Errorf("the transaction is %q of %q, want %q", got, h.Call().Words, want)
	}
	if n := p.near.Exists(ctx, a).Val(); n != 0 {
		t.Error("a part of the transaction has happened")
	}
	h.Pass()
	testkit.Check(t, <-done)
	if n := p.near.Exists(ctx, a, p.prefix+"b").Val(); n != 2 || len(p.Unanswered()) != 0 {
		t.Errorf("%d of 2 keys, unanswered %v", n, p.Unanswered())
	}
}

// Messages to a subscriber are pushes: one is held and passes, one is lost alone, and what follows goes on.
func TestRedisPushes(t *testing.T) {
	t.Parallel()
	for _, version := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP %d", version), func(t *testing.T) {
			t.Parallel()
			p := redisProxy(t, redis.Options{Protocol: version})
			ctx, channel := t.Context(), p.prefix+"news"
			sub := testkit.Closing(t, p.far.Subscribe(ctx, channel, p.prefix+"other"))
			for range 2 {
				_, err := sub.Receive(ctx)
				testkit.Must(t, err)
			}
			about := func(text string) func(wire.Call) bool {
				return func(c wire.Call) bool { return slices.Contains(c.Words, channel) && slices.Contains(c.Words, text) }
			}
			lost := p.Add(wire.Rule{Push: true, Match: about("lost")})
			held := p.Add(wire.Rule{Push: true, Match: about("held")})
			for _, text := range []string{"first", "lost", "held", "last"} {
				testkit.Must(t, p.near.Publish(ctx, channel, text).Err())
			}
			reached(t, lost)
			lost.Drop(false)
			reached(t, held)
			held.Pass()
			var got []string
			for range 3 {
				m, err := sub.ReceiveMessage(ctx)
				testkit.Must(t, err)
				got = append(got, m.Payload)
			}
			want(t, []string{"first", "held", "last"}, got)
			testkit.Must(t, sub.Unsubscribe(ctx))
			testkit.Until(t, "all is answered", func() bool {
				return !slices.ContainsFunc(p.Since(0), func(c wire.Call) bool { return c.Answered.IsZero() })
			})
		})
	}
}

// A script has a name, however it is called, and whichever proxy saw it first.
func TestRedisScripts(t *testing.T) {
	t.Parallel()
	p := redisProxy(t, redis.Options{})
	script := redis.NewScript("-- Sells one, as one step. In " + p.prefix + "\nreturn redis.call('DECR', KEYS[1])")
	for range 2 {
		testkit.Must(t, script.Run(t.Context(), p.far, []string{p.prefix + "stock:{101}"}, 7).Err())
	}
	key := codec.Key(p.prefix) + "stock:{#}"
	var got []string
	for _, c := range p.Since(0) {
		if !c.Setup {
			got = append(got, strings.TrimSpace(c.Pattern+" "+c.Failed))
		}
	}
	slices.Sort(got) // the first EVALSHA is named by the hash when nobody has seen the script
	want(t, []string{"EVAL 'Sells one, as one step' " + key, "EVALSHA 'Sells one, as one step' " + key,
		"EVALSHA script-" + script.Hash()[:8] + " " + key + " NOSCRIPT"}, got)
}

// What cannot be read ends the connection with a sentence. A replica that looks for its master at the proxy's address
// is turned away, and is no error: it is no client, and holds nothing.
func TestRedisRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ send, want string }{
		"TLS":           {"\x16\x03\x01\x00\xf4", "TLS"},
		"monitor":       {"MONITOR\r\n", "connect to the server itself"},
		"reply off":     {"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$3\r\nOFF\r\n", "without an answer"},
		"something":     {"\x00\x01\x02\n", "not Redis's protocol"},
		"a long length": {"*9999999999999\r\n", "not Redis's protocol"},
		"a bad bulk":    {"*1\r\n+OK\r\n", "not Redis's protocol"},
		"psync":         {"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n", ""},
		"replconf":      {"REPLCONF listening-port 6379\r\n", ""},
		"sync":          {"SYNC\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, testenv.Miniredis(t).Client.Options().Addr, codec.Redis)
			conn := dial(t, p.Addr)
			_, err := conn.Write([]byte(c.send))
			testkit.Must(t, err)
			_ = conn.SetReadDeadline(time.Now().Add(enough))
			if b, err := io.ReadAll(conn); len(b) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection reads %q, %v; want its end", b, err)
			}
			if err := p.Err(); (err == nil) != (c.want == "") || err != nil &&
				(!strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "wire: server: ")) {
				t.Errorf("Err() = %v, want %q", err, c.want)
			}
			if p.Forget(0); p.Err() != nil {
				t.Errorf("after Forget: Err() = %v", p.Err())
			}
		})
	}
}
