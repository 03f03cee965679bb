package idempotency_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/idempotency"
	"lastitem/internal/lock"
	"lastitem/testkit"
)

func TestTemplateFillsItsGaps(t *testing.T) {
	t.Parallel()
	for format, gaps := range map[string]int{"": 0, "none": 0, "%d": 1, `{"left":%d}`: 1, "%[1]d of %[1]d": 2,
		"%[1]d\x00%[1]d\xff": 2} {
		var others []int64
		render := func(n int64) idempotency.Answer {
			body := format
			if gaps > 0 {
				body = fmt.Sprintf(format, n)
			}
			return idempotency.Answer{Status: 299, Body: []byte(body + fmt.Sprint(others))}
		}
		taken := func(n int64) bool {
			for _, o := range others {
				if o == n {
					return true
				}
			}
			return false
		}
		for range 2 { // the second time with a number in it that was the gap of the first
			template := idempotency.NewTemplate(render, taken)
			if len(template.Pieces) != gaps+1 {
				t.Errorf("%q: %d pieces, want %d", format, len(template.Pieces), gaps+1)
			}
			for _, n := range []int64{0, 7, -1, 1 << 52} {
				got, want := template.Fill(n), render(n)
				if got.Status != want.Status || !bytes.Equal(got.Body, want.Body) {
					t.Errorf("%q: Fill(%d) = %d %q, want %d %q", format, n, got.Status, got.Body, want.Status, want.Body)
				}
			}
			idempotency.NewTemplate(func(n int64) idempotency.Answer {
				others = []int64{n}
				return idempotency.Answer{}
			}, taken)
		}
	}
}

// table is a table of keys in memory, whose KeepAnswer may fail.
type table struct {
	claimed map[string]idempotency.Record
	keep    error
}

func (t *table) ClaimKey(key []byte, _ int64, fingerprint []byte, _ int64) (bool, idempotency.Record, error) {
	if r, there := t.claimed[string(key)]; there {
		return false, r, nil
	}
	t.claimed[string(key)] = idempotency.Record{Fingerprint: fingerprint}
	return true, idempotency.Record{}, nil
}

func (t *table) KeepAnswer(key []byte, r idempotency.Record) error {
	t.claimed[string(key)] = r
	return t.keep
}

func claim(payload, mode string) idempotency.Claim {
	return idempotency.Claim{Key: []byte("k"), Product: 101, Fingerprint: []byte(payload), Mode: mode}
}

func TestOnce(t *testing.T) {
	t.Parallel()
	first := idempotency.Answer{Status: 200, Body: []byte("first")}
	kept := idempotency.Record{Fingerprint: []byte("p"), Status: 200, Body: []byte("first"), Mode: "m"}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		stored   *idempotency.Record
		effect   error
		keep     error
		claim    idempotency.Claim
		executed bool
		replayed bool
		want     error
	}{
		"the first":                  {nil, nil, nil, claim("p", "m"), true, false, nil},
		"a repetition":               {&kept, nil, nil, claim("p", "m"), false, true, nil},
		"another payload":            {&kept, nil, nil, claim("q", "m"), false, false, idempotency.ErrKeyReused},
		"another mode":               {&kept, nil, nil, claim("p", "n"), false, false, idempotency.ErrKeyReused},
		"an effect that fails":       {nil, broken, nil, claim("p", "m"), true, false, broken},
		"an answer that is not kept": {nil, nil, broken, claim("p", "m"), true, false, broken},
	} {
		tab := &table{claimed: map[string]idempotency.Record{}, keep: c.keep}
		if c.stored != nil {
			tab.claimed["k"] = *c.stored
		}
		executed := false
		a, replayed, err := c.claim.Once(tab, func() (idempotency.Answer, error) {
			executed = true
			return first, c.effect
		})
		if executed != c.executed || replayed != c.replayed || !errors.Is(err, c.want) {
			t.Errorf("%s: executed %t, replayed %t, %v, want %t, %t, %v", name, executed, replayed, err, c.executed, c.replayed,
				c.want)
		}
		if c.want != nil {
			if c.effect != nil && tab.claimed["k"].Status != 0 {
				t.Errorf("%s: kept %+v, want no answer", name, tab.claimed["k"])
			}
			continue
		}
		if d := cmp.Diff(first, a); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if c.stored == nil {
			if d := cmp.Diff(kept, tab.claimed["k"]); d != "" {
				t.Errorf("%s: kept %s", name, d)
			}
		}
	}
}

// Fingerprints are stored: those of the next version must be the same.
func TestFingerprintStays(t *testing.T) {
	t.Parallel()
	type item struct{ ProductID, Quantity int64 }
	got, err := idempotency.Fingerprint(struct {
		Items []item
		Store string
	}{[]item{{101, 1}}, "sql"})
	const want = "1dcb69e18e785031df93deee13e88b06e78cc4acb3f94197d0ae78bb314f336b"
	if err != nil || hex.EncodeToString(got) != want {
		t.Errorf("Fingerprint() = %x, %v, want %s", got, err, want)
	}
	if _, err := idempotency.Fingerprint(math.NaN()); err == nil {
		t.Error("Fingerprint(NaN) = nil, want an error")
	}
}

// What was made in the first half of the retention may have been purged when it is delivered.
func TestOldest(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(10_000_000)
	for keep, want := range map[time.Duration]int64{0: math.MinInt64, 4 * time.Second: 8_000_000,
		24 * time.Hour: now.Add(-12 * time.Hour).UnixMicro()} {
		testkit.Is(t, idempotency.Retention(keep).Oldest(now), want, "Retention(%s).Oldest()", keep)
	}
}

// held are the names of the locks that somebody has; nobody gives one back.
type held map[string]bool

func (h held) Acquire(_ context.Context, name string) (lock.Lease, error) {
	if h[name] {
		return nil, lock.ErrBusy
	}
	h[name] = true
	return nil, nil
}

func TestLock(t *testing.T) {
	t.Parallel()
	const name = "p:lock:key:{8254c329a92850f6d539dd376f4816ee}" // replicas of different versions must use the same
	server := miniredis.RunT(t)
	client := testkit.Closing(t, redis.NewClient(&redis.Options{Addr: server.Addr()}))
	h := held{}
	l := idempotency.Lock{Locker: h, Client: client, Prefix: "p:", TTL: 10 * time.Second}
	if _, err := l.Acquire(t.Context(), []byte("k")); err != nil || !h[name] {
		t.Fatalf("Acquire() = %v, holds %v, want %s", err, h, name)
	}
	for left, want := range map[time.Duration]time.Duration{ // of the lock: when to ask again
		9 * time.Second: time.Second, 6 * time.Second: 4 * time.Second, 2 * time.Second: 2 * time.Second,
	} {
		testkit.Must(t, server.Set(name, "owner"))
		server.SetTTL(name, left)
		_, err := l.Acquire(t.Context(), []byte("k"))
		var busy *idempotency.InFlightError
		if !errors.As(err, &busy) || !errors.Is(err, idempotency.ErrInFlight) || !errors.Is(err, lock.ErrBusy) ||
			busy.Left != left || busy.Held != 10*time.Second-left || busy.Again() != want {
			t.Errorf("Acquire() of a key in flight with %s left = %v (%+v), want to ask again in %s", left, err, busy, want)
		}
	}
}

// An error without a known end of the lock does not name one.
func TestInFlightErrorNamesWhatIsKnown(t *testing.T) {
	t.Parallel()
	for left, want := range map[time.Duration]bool{0: false, 2 * time.Second: true} {
		busy := &idempotency.InFlightError{Left: left, Cause: lock.ErrBusy}
		if got := busy.Error(); strings.Contains(got, "at the latest") != want {
			t.Errorf("Error() with %s left = %q, says when the key is free: want %t", left, got, want)
		}
	}
}
