package handoff_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// Messages that an engine cannot read change nothing. A token that is not its own, or ended, is cancelled, and nothing else is sent, except
// the poll of the waiter, which may be due.
func TestUnreadableMessages(t *testing.T) {
	onServers(t, func(t *testing.T, s *testenv.RedisServer) {
		key := s.Prefix + "{1}"
		held := locktest.Take(t, onServer(t, s, handoff.Options{}).Fair(), key)
		c, sent := locktest.RedisClient(t, s), &spy{}
		got, _ := async(t.Context(), engine(t, c, handoff.Options{GrantTimeout: 30 * time.Second}).Fair(), key)
		wait.Until(t, "a waiter", func() bool { return s.Client.ZCard(t.Context(), handoff.KeysOf(key).Queue).Val() == 1 })
		token := s.Client.ZRange(t.Context(), handoff.KeysOf(key).Queue, 0, 0).Val()[0]
		process, rest, _ := strings.Cut(token, ".")
		number, _, _ := strings.Cut(rest, ".")
		publish := func(m string) {
			if n := s.Client.Publish(t.Context(), "lock:engine:"+process, m).Val(); n != 1 {
				t.Fatalf("%d processes heard %q", n, m)
			}
		}
		now := strconv.FormatInt(time.Now().UnixMilli(), 10)
		publish("first.1.1.2500 7 " + now + " " + key)
		wait.Until(t, "a cancel, after which the server knows its script", func() bool {
			return len(s.Client.Keys(t.Context(), s.Prefix+"*first.1.1.2500").Val()) == 1
		})
		c.AddHook(sent)
		unreadable := []string{"", " ", token, token + " 7", "   ", token + " q7 " + now + " " + key, token + " 7 then " + key}
		var foreign []string
		for _, other := range []string{
			"ABCDEFGHIJKLMNOP.1.1.2500", "ABCDEFGHIJKLMNOP." + rest, number + ".1.1.2500", "v3-" + token[3:],
			process + ".zz.1.2500", process + "." + number + ".2.2500",
		} {
			foreign = append(foreign, other+" 7 "+now+" "+key, other+" x7 "+now+" "+key)
		}
		for _, m := range slices.Concat(unreadable, foreign) {
			publish(m)
		}
		cancels, commands := int64(len(foreign)/2), func() int64 { return sent.scripts.Load() - sent.polls.Load() }
		wait.Until(t, "the cancels", func() bool { return commands() >= cancels })
		select {
		case lease := <-got:
			t.Fatalf("a message that nobody understands granted %v", lease)
		case <-time.After(100 * time.Millisecond):
		}
		if n := commands(); n != cancels {
			t.Errorf("%d commands, want %d cancels", n, cancels)
		}
		locktest.Release(t, held)
		locktest.Release(t, served(t, "the waiter", got))
	})
}
