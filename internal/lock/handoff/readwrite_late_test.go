package handoff_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
)

// recorder is a client hook that records the scripts sent, so that a test can deliver one of them late.
type recorder struct {
	testenv.Hook
	mu   sync.Mutex
	sent [][]any
}

func (p *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "evalsha") {
			p.mu.Lock()
			p.sent = append(p.sent, slices.Clone(cmd.Args()))
			p.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}

// The first of two sendings of an acquire arrives when the read, or the write, is over: it grants nothing.
func TestReadWriteLateAcquire(t *testing.T) {
	s := testenv.Redis(t)
	for name, scripts := range map[string]int{"rw-read": 3, "rw-write": 4} { // an acquire twice, a release, of a write the cancel
		t.Run(name, func(t *testing.T) {
			c, lost, sent, key := locktest.RedisClient(t, s), &locktest.LostAnswers{Name: "evalsha"}, &recorder{}, s.Prefix+name+"{1}"
			l := pick(engine(t, c, handoff.Options{}), name)
			locktest.Warm(t, l, key)
			c.AddHook(sent)
			c.AddHook(lost)
			lost.Left.Store(1)
			released(t, locktest.Obtain(t, l, key))
			if len(sent.sent) != scripts {
				t.Fatalf("%d scripts, want %d", len(sent.sent), scripts)
			}
			locktest.Warm(t, onServer(t, s, handoff.Options{}).ReadWrite().Write(), key) // Redis remembers this release now
			if err := s.Client.Do(t.Context(), sent.sent[0]...).Err(); err != nil {
				t.Fatal(err)
			}
			keys := handoff.KeysOf(key)
			if n := s.Client.Exists(t.Context(), keys.Lock, keys.Queue, keys.Readers).Val(); n != 0 {
				t.Error("a read or write that is over got in again, or queued")
			}
		})
	}
}

// delayedReply is a client hook that keeps back the reply to one script until deliver is closed.
type delayedReply struct {
	testenv.Hook
	next    atomic.Bool // the next one
	arrived chan struct{}
	deliver chan struct{}
}

func (h *delayedReply) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if strings.HasPrefix(cmd.Name(), "evalsha") && h.next.CompareAndSwap(true, false) {
			close(h.arrived)
			<-h.deliver
		}
		return err
	}
}

// The message that grants a read overtakes the reply to its acquire, which says that it is queued.
func TestReadWriteMessageOvertakesAnswer(t *testing.T) {
	for name, holder := range map[string]string{"let in": "rw-write", "granted the write lock": "fair"} {
		t.Run(name, func(t *testing.T) {
			s := testenv.Redis(t)
			key := s.Prefix + t.Name() + "{1}"
			a, c, sent := onServer(t, s, handoff.Options{}), locktest.RedisClient(t, s), &recorder{}
			h := &delayedReply{arrived: make(chan struct{}), deliver: make(chan struct{})}
			b := engine(t, c, handoff.Options{})
			l := b.ReadWrite().Read()
			held := locktest.Obtain(t, pick(a, holder), key)
			queued := queueing(t, s, l, key, 1) // so that it listens
			released(t, held)
			released(t, served(t, "the first reader", queued))
			held = locktest.Obtain(t, pick(a, holder), key)
			other := locktest.Obtain(t, a.Fair(), key+"2")
			after := queueing(t, s, b.Fair(), key+"2", 1)
			c.AddHook(h)
			c.AddHook(sent)
			h.next.Store(true)
			got := queueing(t, s, l, key, 1)
			<-h.arrived
			released(t, held)
			released(t, other)
			later := served(t, "the waiter that gets the next message", after) // so that the first one has been read
			if holder == "rw-write" {                                          // all is said: it is in, and out again, before the answer
				released(t, served(t, "the reader", got))
				if err := s.Client.Do(t.Context(), sent.sent[0]...).Err(); err != nil { // it was sent twice, for all one knows
					t.Fatal(err)
				}
				close(h.deliver)
			} else { // it sends another acquire, at once and not with the next poll
				close(h.deliver)
				released(t, served(t, "the reader", got))
				if n := len(sent.sent); n != 3 {
					t.Errorf("%d scripts, want two acquires and a release", n)
				}
			}
			nothingLeftOn(t, s, key)
			released(t, later)
		})
	}
}
