package handoff_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

// Readers overlap, so that there is always one: the writer gets in before those that came after it.
func TestReadWriteWriterIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, handoff.Options{}, "rw-read", "rw-write")
		writer, next := s.waits(1), s.waits(0)
		released(t, s.held)
		if synctest.Wait(); len(next) > 0 {
			t.Error("a reader has overtaken the writer")
		}
		released(t, <-writer)
		released(t, <-next)
	})
}

// Readers and writers of all processes get in in the order of arrival; adjacent readers get in together.
func TestReadWriteOrder(t *testing.T) {
	s := testenv.Redis(t)
	key := s.Prefix + "{1}"
	var rw []handoff.ReadWrite
	for range 3 {
		rw = append(rw, onServer(t, s, handoff.Options{}).ReadWrite())
	}
	first := locktest.Obtain(t, rw[0].Write(), key)
	order := "rrwwrrrwr"
	got := make([]chan lock.Lease, len(order))
	for i, want := range order {
		l := rw[i%3].Read()
		if want == 'w' {
			l = rw[i%3].Write()
		}
		got[i] = queueing(t, s, l, key, i+1)
	}
	released(t, first)
	fence := first.Fence()
	for i := 0; i < len(order); {
		n := 1 // how many get in together
		for order[i] == 'r' && i+n < len(order) && order[i+n] == 'r' {
			n++
		}
		var in []lock.Lease
		for _, c := range got[i : i+n] {
			in = append(in, served(t, fmt.Sprintf("one of %d to %d", i, i+n), c))
		}
		i += n
		for j, c := range got[i:] {
			if len(c) > 0 {
				t.Fatalf("%d got in before its turn", i+j)
			}
		}
		for _, l := range in {
			rise(t, fence, l.Fence())
			released(t, l)
		}
		fence = in[0].Fence()
	}
	nothingLeftOn(t, s, key)
}

// More readers than one script admits: the last of them admits the rest.
func TestReadWriteManyReadersAtOnce(t *testing.T) {
	s := testenv.Redis(t)
	c, counted, key := locktest.RedisClient(t, s), &spy{}, s.Prefix+"{1}"
	rw := engine(t, c, calm(handoff.Options{})).ReadWrite()
	const readers = 250
	held := locktest.Obtain(t, onServer(t, s, handoff.Options{}).ReadWrite().Write(), key)
	first := queueing(t, s, rw.Read(), key, 1)
	c.AddHook(counted)
	got := []chan lock.Lease{first}
	for range readers - 1 {
		one, _ := async(t.Context(), rw.Read(), key)
		got = append(got, one)
	}
	testkit.Until(t, "all queue", func() bool {
		return s.Client.ZCard(t.Context(), handoff.KeysOf(key).Queue).Val() == readers
	})
	released(t, held)
	var in []lock.Lease
	for _, one := range got {
		in = append(in, served(t, "a reader", one))
	}
	if n := counted.scripts.Load(); n > readers+10 {
		t.Errorf("%d commands for %d readers", n, readers)
	}
	locktest.WantBusy(t, rw.Write(), key, "while it is held")
	for _, lease := range in {
		released(t, lease)
	}
	nothingLeftOn(t, s, key)
}

// A read cannot become a write, nor can a lock that knows no readers.
func TestReadWriteReentry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, links := network(t, 1)
		e := links[0].process(t, handoff.Options{})
		for outer, refused := range map[string][]string{"rw-read": {"rw-write", "fair", "handoff"}, "fair": {"rw-write"}} {
			lease := locktest.Obtain(t, pick(e, outer), "k{1}")
			for _, name := range refused {
				_, err := pick(e, name).Acquire(lease.Context(), "k{1}")
				testkit.IsError(t, err, handoff.ErrUpgrade, "%s within %s", name, outer)
			}
			released(t, lease)
		}
	})
}

// The set of readers does not outlive the last of them, also where engines have different TTLs.
func TestReadWriteReadersExpire(t *testing.T) {
	s := testenv.Redis(t)
	key := s.Prefix + "{1}"
	long := locktest.Obtain(t, onServer(t, s, handoff.Options{TTL: time.Minute}).ReadWrite().Read(), key)
	short := locktest.Obtain(t, onServer(t, s, handoff.Options{TTL: 20 * time.Second}).ReadWrite().Read(), key)
	if left := s.Client.PTTL(t.Context(), handoff.KeysOf(key).Readers).Val(); left > time.Minute || left < 30*time.Second {
		t.Errorf("the readers expire in %s, want a minute at most, and not with the shorter TTL", left)
	}
	released(t, long)
	released(t, short)
	nothingLeftOn(t, s, key)
}

// A writer whose wait runs out beside readers, or before the reply says so, gives up its ownership at once. One that
// waits gets in when the last reader leaves.
func TestReadWriteBoundedWaitForReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, links := network(t, 2)
		rw := links[0].process(t, handoff.Options{}).ReadWrite()
		subscribe(t, rw.Write(), links[1].process(t, handoff.Options{}).Fair())
		held := locktest.Obtain(t, rw.Read(), "k{1}")
		links[0].slow.Store(int64(slowness))
		for _, most := range []time.Duration{0, slowness / 2, 10 * slowness} {
			_, err := rw.Write().Acquire(lock.WithWait(t.Context(), most), "k{1}")
			testkit.IsError(t, err, lock.ErrBusy, "Acquire with wait %s beside a reader", most)
			time.Sleep(5 * slowness) // the cancel has arrived
			released(t, locktest.Take(t, rw.Read(), "k{1}"))
		}
		other := locktest.Obtain(t, rw.Read(), "k{1}")
		got, _ := waits(t.Context(), rw.Write(), "k{1}")
		time.Sleep(5 * slowness)
		released(t, held)
		time.Sleep(5 * slowness)
		if len(got) > 0 {
			t.Error("a writer got in when the first of two readers left")
		}
		released(t, other)
		released(t, <-got)
		nothingLeft(t, m, "k{1}")
	})
}
