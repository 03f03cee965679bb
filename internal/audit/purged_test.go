package audit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/internal/api"
)

// purge removes the rows with these ids, as a purge does: with their units added to the sums.
func purge(l *api.Ledger, ids ...string) {
	p := l.Purged[api.SQL]
	l.Orders = slices.DeleteFunc(l.Orders, func(o api.Order) bool {
		if !slices.Contains(ids, o.OrderID) {
			return false
		}
		p.Orders++
		p.Units += o.Quantity
		return true
	})
	l.Purged = map[api.Store]api.Purged{api.SQL: p}
}

// purgeKey does that for a key.
func purgeKey(l *api.Ledger, key string) {
	p := l.Purged[api.SQL]
	l.Keys = slices.DeleteFunc(l.Keys, func(k api.KeyRow) bool { return k.Key == key })
	p.Keys++
	l.Purged = map[api.Store]api.Purged{api.SQL: p}
}

// Purged orders count as sold, and are not reported as missing. Any other missing order is still found.
func TestPurged(t *testing.T) {
	t.Parallel()
	for _, c := range []mutant{
		{"the first orders", func(_ *Input, l *api.Ledger) { purge(l, "o1", "o2", "o3") }, Exact, "", ""},
		{"all orders", func(_ *Input, l *api.Ledger) { purge(l, "o1", "o2", "o3", "o4", "o5", "o6", "o7") }, Exact, "", ""},
		{"an order that was replayed", func(_ *Input, l *api.Ledger) { purge(l, "o4") }, Exact, "", ""},
		{"a key whose order is kept", func(_ *Input, l *api.Ledger) { purgeKey(l, "k4") }, Exact, "", ""},
		{"all keys but one", func(_ *Input, l *api.Ledger) { purgeKey(l, "k4"); purgeKey(l, "k6") }, Exact, "", ""},
		{"all orders, judged by the ledger alone", func(in *Input, l *api.Ledger) {
			purge(l, "o1", "o2", "o3", "o4", "o5", "o6", "o7")
			l.Keys, in.History, in.Replicas, in.WantSoldOut = nil, nil, 0, false
		}, Exact, "", ""},

		{"the purge forgot to add a row", func(_ *Input, l *api.Ledger) {
			purge(l, "o1", "o2")
			l.Orders = slices.DeleteFunc(l.Orders, func(o api.Order) bool { return o.OrderID == "o3" })
		}, Broken, "LA", ""},
		{"the purge forgot to add at all", func(in *Input, l *api.Ledger) {
			purge(l, "o1", "o2", "o3")
			l.Purged, in.History, in.Replicas, in.WantSoldOut = nil, nil, 0, false
		}, Broken, "L", ""},
		{"the purge added twice", func(_ *Input, l *api.Ledger) {
			purge(l, "o1")
			l.Purged[api.SQL] = api.Purged{Orders: 2, Units: 2}
		}, Broken, "O", ""},
		{"one more is lost than was purged", func(_ *Input, l *api.Ledger) {
			purge(l, "o1")
			l.Orders = slices.DeleteFunc(l.Orders, func(o api.Order) bool { return o.OrderID == "o2" })
			l.Stock[api.SQL]++
		}, Broken, "A", ""},
		{"one key more is missing than was purged", func(_ *Input, l *api.Ledger) {
			purgeKey(l, "k6")
			l.Purged[api.SQL] = api.Purged{}
			l.Keys = slices.DeleteFunc(l.Keys, func(k api.KeyRow) bool { return k.Key == "k4" })
		}, Broken, "", "no stored answer"},
		{"the sums are another store's", func(_ *Input, l *api.Ledger) {
			purge(l, "o1")
			l.Purged = map[api.Store]api.Purged{api.Redis: l.Purged[api.SQL]}
		}, Broken, "LA", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := good()
			c.change(&in, in.Ledger)
			r := Judge(in)
			if r.Verdict != c.verdict || r.Found != c.found {
				t.Errorf("Judge() = %s %q, want %s %q\n%s", r.Verdict, r.Found, c.verdict, c.found, r.Text("en"))
			}
			if all := strings.Join(r.Violations, "; "); !strings.Contains(all, c.phrase) {
				t.Errorf("violations %q, want %q among them", all, c.phrase)
			}
			if c.verdict == Exact && len(r.Unchecked) == 0 {
				t.Error("the report does not say that something was purged")
			}
		})
	}
}

// reuse makes the first order use the key of the fourth, which was created so many milliseconds before it, where keys are kept for 100.
func reuse(l *api.Ledger, apart int) {
	l.KeepKeysMS = 100
	l.Orders[0].Key, l.Orders[0].CreatedAt = "k4", l.Orders[3].CreatedAt.Add(time.Duration(-apart)*time.Millisecond)
}

// A key protects its request for its retention. The judge allows for a tenth of it, at most a minute, since clocks differ.
func TestDoublesAndRetention(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kept         time.Duration
		at           []time.Duration // when the orders of one key were created
		twice, later int
	}{
		"one order":                   {24 * time.Hour, []time.Duration{0}, 0, 0},
		"at the same time":            {24 * time.Hour, []time.Duration{0, 0}, 1, 0},
		"kept forever":                {0, []time.Duration{0, 1e6 * time.Hour}, 1, 0},
		"more than a minute too soon": {24 * time.Hour, []time.Duration{0, 24*time.Hour - time.Minute - time.Microsecond}, 1, 0},
		"less than a minute too soon": {24 * time.Hour, []time.Duration{0, 24*time.Hour - time.Minute}, 0, 1},
		"within nine tenths":          {10 * time.Second, []time.Duration{0, 9*time.Second - time.Microsecond}, 1, 0},
		"after nine tenths":           {10 * time.Second, []time.Duration{0, 9 * time.Second}, 0, 1},
		"later, and then twice":       {10 * time.Second, []time.Duration{0, 30 * time.Second, 31 * time.Second}, 1, 1},
		"out of order":                {10 * time.Second, []time.Duration{30 * time.Second, 1 * time.Second, 0}, 1, 1},
		"always later":                {10 * time.Second, []time.Duration{0, 10 * time.Second, 20 * time.Second}, 0, 2},
	} {
		uses := []use[string]{{"another", 5, 0}, {"other", 5, 1}}
		for _, at := range c.at {
			uses = append(uses, use[string]{"key", at.Microseconds(), len(uses)})
		}
		j := judge{in: Input{Ledger: &api.Ledger{KeepKeysMS: c.kept.Milliseconds()}}}
		if twice, later := doubles(uses, j.kept()); twice != c.twice || len(later) != c.later {
			t.Errorf("%s: doubles() = %d, %v, want %d, %d", name, twice, later, c.twice, c.later)
		}
	}
}
