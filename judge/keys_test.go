package judge

import (
	"testing"
	"time"

	"lastitem/contract/api"
)

// at is an order row that was created so long after noon.
func at(id, key string, left int64, after time.Duration) api.Order {
	o := row(id, 1, left, key, 0)
	o.CreatedAt, o.Replica = noon.Add(after), "1"
	return o
}

// books are a ledger whose stock was once initial, and is now.
func books(initial, now int64, rows ...api.Order) *api.Ledger {
	return &api.Ledger{ProductID: 101, Orders: rows, Initial: map[api.Store]int64{api.SQL: initial},
		Stock: map[api.Store]int64{api.SQL: now}}
}

func answer(key string, status int, after time.Duration) api.KeyRow {
	return api.KeyRow{Key: key, Status: status, CreatedAt: noon.Add(after)}
}

// replay is an ok that is marked as a repetition.
func replay(call, ret int64, id, key string) Op {
	o := op(OK, call, ret, 1, id, key)
	o.Replayed = true
	return o
}

// heard judges one request after the other.
func heard(l *api.Ledger, ops ...Op) Report {
	return Judge(Input{Mode: "m", Store: api.SQL, Ledger: l, Sequential: true, Directed: true, History: ops})
}

// Keys are kept for ten seconds, and k is used again after eleven.
func TestKeyUsedAgain(t *testing.T) {
	t.Parallel()
	const s = int64(time.Second)
	first, later := at("o1", "k", 4, 0), at("o2", "k", 3, 11*time.Second)
	bought, again := op(OK, 0, 1, 1, "o1", "k"), op(OK, 11*s-1, 11*s+1, 1, "o2", "k")
	for name, c := range map[string]struct {
		ledger  *api.Ledger
		answers []api.KeyRow
		ops     []Op // nil = the ledger alone
		verdict Verdict
		found   string
	}{
		"sold twice": {books(5, 3, first, later), []api.KeyRow{answer("k", 200, 11*time.Second)}, []Op{bought, again}, Exact,
			""},
		"the second answer is lost, and repeated": {
			books(5, 3, first, later), []api.KeyRow{answer("k", 200, 11*time.Second)},
			[]Op{bought, op(Unknown, 11*s-1, 0, 1, "", "k"), replay(12*s, 13*s, "o2", "k")}, Exact, "",
		},
		"sold out the second time": {
			books(1, 0, at("o1", "k", 0, 0)), []api.KeyRow{answer("k", 409, 11*time.Second)},
			[]Op{bought, op(Refused, 11*s-1, 11*s+1, 1, "", "k")}, Exact, "",
		},
		"in flight the second time": {books(5, 4, first), []api.KeyRow{answer("k", 0, 11*time.Second)}, nil, Exact, ""},
		"nobody asked again":        {books(5, 3, first, later), nil, []Op{bought}, Broken, ""},
		"nothing happened, they said": {
			books(5, 3, first, later), nil, []Op{bought, op(Declined, 11*s-1, 11*s+1, 1, "", "k")}, Broken, "",
		},
		"the second order is lost": {books(5, 4, first), nil, []Op{bought, again}, Broken, "A"},
		"too soon": {books(5, 3, first, at("o2", "k", 3, 8*time.Second)), nil,
			[]Op{bought, op(OK, 8*s-1, 8*s+1, 1, "o2", "k")}, Broken, "D"},
	} {
		l := c.ledger
		l.KeepKeysMS, l.Keys, l.AsOf = 10_000, c.answers, noon.Add(13*time.Second)
		r := Judge(Input{Store: api.SQL, Ledger: l})
		if c.ops != nil {
			r = heard(l, c.ops...)
		} else if tally := tallied(l, api.SQL, maxPrints); tally.Verdict != c.verdict {
			t.Errorf("%s: Tally = %s", name, tally.Text("en"))
		}
		if r.Verdict != c.verdict || r.Found != c.found {
			t.Errorf("%s: want %s %q, got %s", name, c.verdict, c.found, r.Text("en"))
		}
	}
}

// Replicas' clocks may differ by minutes: what a replica acknowledged relates its clock to the history's.
func TestClocksFarApart(t *testing.T) {
	t.Parallel()
	const s = int64(time.Second)
	on := func(replica string, o api.Order) api.Order {
		o.Replica = replica
		return o
	}
	r := heard(books(10, 6,
		on("1", at("a", "", 9, 10*time.Minute+time.Second)), on("2", at("b", "", 7, 40*time.Second)),
		on("2", at("y", "", 6, 50*time.Second)), on("1", at("x", "", 8, 10*time.Minute+2*time.Second))),
		op(OK, s-1, s+1, 1, "a", ""), op(Unknown, 2*s-1, 0, 1, "", ""), op(OK, 40*s-1, 40*s+1, 1, "b", ""),
		op(Unknown, 50*s-1, 0, 1, "", ""))
	if r.Verdict != Exact {
		t.Error(r.Text("en"))
	}
}

// Where the rows do not show the keys, a second order for a key is the one that no other request accounts for.
func TestDoubleWithoutKeysInRows(t *testing.T) {
	t.Parallel()
	two := func() *api.Ledger { return books(10, 8, at("o1", "", 9, 1), at("o2", "", 8, 20)) }
	for name, c := range map[string]struct {
		ledger *api.Ledger
		ops    []Op
		want   string
	}{
		"the second is acknowledged": {two(), []Op{op(Unknown, 0, 0, 1, "", "k"), op(OK, 19, 25, 1, "o2", "k")}, "D"},
		"neither is acknowledged":    {two(), []Op{op(Unknown, 0, 0, 1, "", "k"), op(Unknown, 19, 0, 1, "", "k")}, "D"},
		"without an id":              {two(), []Op{op(Unknown, 0, 0, 1, "", "k"), op(OK, 19, 25, 1, "", "k")}, "D"},
		"another's request": {two(), []Op{op(Unknown, 0, 0, 1, "", "k"), op(Unknown, 1, 0, 1, "", "j"),
			op(OK, 19, 25, 1, "o2", "k")}, ""},
		"sold once": {books(10, 9, at("o2", "", 9, 20)), []Op{op(Unknown, 0, 0, 1, "", "k"), op(OK, 19, 25, 1, "o2", "k")},
			""},
	} {
		if r := heard(c.ledger, c.ops...); r.Found != c.want {
			t.Errorf("%s: want %q, got %s", name, c.want, r.Text("en"))
		}
	}
}

// A key whose stored answer is a sale is told of the sale, and of nothing else.
func TestRefusedSale(t *testing.T) {
	t.Parallel()
	l := books(1, 0, at("o1", "k", 0, 0))
	l.Keys = []api.KeyRow{answer("k", 200, 0)}
	if r := heard(l, op(Unknown, 0, 0, 1, "", "k"), op(Refused, 11, 12, 1, "", "k")); r.Verdict != Broken ||
		len(r.Violations) != 1 {
		t.Error(r.Text("en"))
	}
}

// The refusals that a history has are its own mode's: another mode's sale for the key says nothing about them.
func TestRefusedBesideAnotherModesSale(t *testing.T) {
	t.Parallel()
	// "" = any mode may have answered; the other violation is the order itself
	for mode, want := range map[string]int{"": 2, "idempotent": 1} {
		l := books(1, 0, at("o1", "k", 0, 0))
		l.Orders[0].Mode = "idempotent"
		l.Keys = []api.KeyRow{answer("k", 200, 0)}
		l.Keys[0].Mode = mode
		r := Judge(Input{
			Mode: "m", Store: api.SQL, Partial: true, Sequential: true, Ledger: l,
			History: []Op{op(Refused, 11, 12, 1, "", "k")},
		})
		if len(r.Violations) != want {
			t.Errorf("answered by %q: want %d violations, got %s", mode, want, r.Text("en"))
		}
	}
}

// In a history that is not complete, the request that a replay repeats may have been another client's, at any time.
func TestReplayOfAnothersRequest(t *testing.T) {
	t.Parallel()
	r := Judge(Input{
		Mode: "m", Store: api.SQL, Partial: true, Sequential: true, Ledger: books(1, 0, at("o1", "k", 0, 0)),
		History: []Op{op(Refused, 4, 5, 1, "", ""), replay(10, 11, "o1", "k")},
	})
	if r.Verdict == Broken {
		t.Error(r.Text("en"))
	}
}

// A key is its mode's own: an order of a mode that stores no answers has nothing to do with another mode's answer to
// its key.
func TestKeyOfAnotherMode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status  int
		mode    string
		verdict Verdict
		found   string
	}{
		"refused there":                     {409, "idempotent", Exact, ""},
		"sold there, and its order is gone": {200, "idempotent", Broken, ""},
		"refused by the same mode":          {409, "m", Broken, ""},
		"refused by an unknown mode":        {409, "", Broken, ""},
	} {
		l := books(5, 3, at("o1", "k", 4, 0), at("o2", "j", 3, 1))
		l.Keys = []api.KeyRow{answer("k", c.status, 0)}
		l.Keys[0].Mode = c.mode
		for _, r := range []Report{Judge(Input{Store: api.SQL, Ledger: l}), tallied(l, api.SQL, maxPrints)} {
			if r.Verdict != c.verdict || r.Found != c.found {
				t.Errorf("%s: want %s %q, got %s", name, c.verdict, c.found, r.Text("en"))
			}
		}
	}
}

// The stored answers are SQL's: an order in Redis with the same key has its own, and none is missing there.
func TestKeysAreOfSQL(t *testing.T) {
	t.Parallel()
	l := books(5, 4, at("o1", "k", 4, 0))
	l.Initial[api.Redis], l.Stock[api.Redis] = 5, 3
	for i, key := range []string{"k", "j"} {
		o := at("r"+key, key, int64(4-i), 0)
		o.Store = api.Redis
		l.Orders = append(l.Orders, o)
	}
	l.Keys = []api.KeyRow{answer("k", 200, 0)}
	for _, r := range OfLedger(l, "") {
		if r.Verdict != Exact {
			t.Error(r.Text("en"))
		}
	}
}

// Keys that are younger than the orders are not held against them.
func TestKeysOfALaterMoment(t *testing.T) {
	t.Parallel()
	l := books(5, 4, at("o1", "k", 4, 0))
	l.Keys = []api.KeyRow{answer("k", 200, 0), answer("younger", 200, time.Second)}
	if r := Judge(Input{Store: api.SQL, Ledger: l}); r.Found != "" || r.Verdict != Broken {
		t.Error(r.Text("en"))
	}
	l.Moved = true
	if r := Judge(Input{Store: api.SQL, Ledger: l}); r.Verdict != Exact || len(r.Unchecked) != 2 {
		t.Error(r.Text("en"))
	}
}

// A service of which only the clients' side is seen: a key is one sale.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	no := op(Refused, 30, 31, 100, "", "j")
	for name, c := range map[string]struct {
		after int64
		ops   []Op
		want  Verdict
	}{
		"charged twice": {8, []Op{op(Unknown, 0, 0, 1, "", "k"), op(OK, 19, 25, 1, "", "k"), no},
			Broken},
		"charged once": {9, []Op{op(Unknown, 0, 0, 1, "", "k"), op(OK, 19, 25, 1, "", "k"), no},
			Exact},
		"the first answer is lost": {9, []Op{op(Unknown, 0, 0, 1, "", "k"), replay(19, 25, "", "k"), no}, Exact},
		"repeated often": {9, []Op{op(Unknown, 0, 0, 1, "", "k"), replay(19, 25, "o", "k"),
			replay(26, 27, "o", "k"), no}, Exact},
		"never answered, charged at most once": {8, []Op{op(Unknown, 0, 0, 1, "", "k"), op(Unknown, 19, 0, 1, "", "k"),
			op(OK, 19, 25, 1, "", "i"), no}, Inconclusive},
		"never answered, charged twice": {7, []Op{op(Unknown, 0, 0, 1, "", "k"), op(Unknown, 19, 0, 1, "", "k"),
			op(OK, 19, 25, 1, "", "i"), no}, Broken},
	} {
		if r := Foreign(10, c.after, Input{History: c.ops}); r.Verdict != c.want {
			t.Errorf("%s: want %s, got %s", name, c.want, r.Text("en"))
		}
	}
}

// A key protects its request for its retention. The judge allows for a tenth of it, at most a minute, since clocks
// differ.
func TestDoublesAndRetention(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kept         time.Duration
		at           []time.Duration // when the orders of one key were created
		twice, later int
	}{
		"one order":        {24 * time.Hour, []time.Duration{0}, 0, 0},
		"at the same time": {24 * time.Hour, []time.Duration{0, 0}, 1, 0},
		"kept forever":     {0, []time.Duration{0, 1e6 * time.Hour}, 1, 0},
		"more than a minute too soon": {24 * time.Hour, []time.Duration{0, 24*time.Hour - time.Minute - time.Microsecond}, 1,
			0},
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
		kept := retentionOf(&api.Ledger{KeepKeysMS: c.kept.Milliseconds()})
		if twice, later := doubles(uses, kept.held()); twice != c.twice || len(later) != c.later {
			t.Errorf("%s: doubles() = %d, %v, want %d, %d", name, twice, later, c.twice, c.later)
		}
	}
}
