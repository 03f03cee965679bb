package judge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/contract/api"
)

// tallied judges a store by a Tally that is given the ledger's rows one by one.
func tallied(l *api.Ledger, store api.Store, limit int) Report {
	facts := *l
	facts.Orders, facts.Keys = nil, nil
	t := NewTally(&facts, store, 3, "en")
	t.limit = limit
	for _, k := range l.Keys {
		t.Key(k)
	}
	of := func(take func(api.Order)) {
		for _, o := range l.Orders {
			if o.Store == store || o.ProductID != l.ProductID {
				take(o)
			}
		}
	}
	if of(t.Order); t.Disputed() {
		of(t.Witness)
	}
	return t.Report()
}

// alike compares what two reports say. Runs of units that the same number of orders carry may be cut in different
// places, so of the evidence it is the worst unit that must be the same, and its orders.
func alike(a, b Report) string {
	for _, r := range []*Report{&a, &b} {
		if len(r.Evidence) > 0 {
			r.Evidence = r.Evidence[:1]
		}
		if r.Replicas == nil {
			r.Replicas = map[string]int{}
		}
		for i := range r.Evidence {
			r.Evidence[i].Orders = slices.Clone(r.Evidence[i].Orders)
		}
	}
	return cmp.Diff(a, b)
}

// Every mutant that the judge finds in a ledger, the tally finds too: they say the same.
func TestTallyIsTheJudge(t *testing.T) {
	t.Parallel()
	for _, m := range slices.Concat([]mutant{{"good", func(*Input, *api.Ledger) {}, Exact, "", ""}}, ledgerMutants) {
		in := good()
		m.change(&in, in.Ledger)
		if in.Ledger == nil {
			continue // this mutant has no ledger to tally
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if d := alike(Judge(Input{Store: in.Store, Ledger: in.Ledger}),
				withoutLang(tallied(in.Ledger, in.Store, maxPrints))); d != "" {
				t.Error(d)
			}
		})
	}
}

func withoutLang(r Report) Report {
	r.Lang = ""
	return r
}

// The key of a reservation's order is its payment's id: it has no stored answer, and may be the text of a request's
// key. Two orders of one payment are a double charge all the same.
func TestPaymentIsNoKey(t *testing.T) {
	t.Parallel()
	in := good()
	for i, key := range []string{"k4", "k6"} {
		o := row(fmt.Sprintf("paid%d", i), 1, 0, key, 10+i)
		o.Remaining, o.ReservationID = nil, "sql-101-"+o.OrderID
		in.Ledger.Orders = append(in.Ledger.Orders, o)
		in.Ledger.Initial[api.SQL]++
	}
	judges := map[string]func() Report{
		"judge": func() Report { return Judge(Input{Store: api.SQL, Ledger: in.Ledger}) },
		"tally": func() Report { return tallied(in.Ledger, api.SQL, maxPrints) },
	}
	for name, judge := range judges {
		if r := judge(); r.Verdict != Exact {
			t.Errorf("the %s says %s %v, want %s", name, r.Verdict, r.Violations, Exact)
		}
	}
	in.Ledger.Orders[len(in.Ledger.Orders)-1].Key = "k4"
	for name, judge := range judges {
		if r := judge(); r.Doubles != 1 {
			t.Errorf("two orders of one payment: the %s counts %d doubles, want 1", name, r.Doubles)
		}
	}
}

// Where chance writes the ledger the two agree as well.
func TestTallyIsTheJudgeByChance(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	for seed := range uint64(2_000) {
		l := chance(rand.New(rand.NewPCG(seed, 1)))
		want, got := Judge(Input{Store: api.SQL, Ledger: l}), withoutLang(tallied(l, api.SQL, maxPrints))
		if d := alike(want, got); d != "" {
			t.Fatalf("seed %d: %s\n%+v", seed, d, l)
		}
		found[string(want.Verdict)+want.Found]++
		for _, v := range want.Violations {
			found[strings.Map(func(c rune) rune {
				if c >= '0' && c <= '9' {
					return -1
				}
				return c
			}, v)]++
		}
	}
	if len(found) < 12 {
		t.Errorf("chance wrote too little: %v", found)
	}
}

// chance writes a small ledger that may have anything wrong with it.
func chance(r *rand.Rand) *api.Ledger {
	l := &api.Ledger{ProductID: 101, Initial: map[api.Store]int64{api.SQL: 8},
		Stock: map[api.Store]int64{api.SQL: int64(r.IntN(9))}}
	for i := range r.IntN(8) {
		o := row(fmt.Sprint("o", i), int64(1+r.IntN(2)), int64(r.IntN(10)-1), "", i)
		switch r.IntN(8) {
		case 0:
			o.Remaining = nil
		case 1:
			o.OrderID = ""
		case 2:
			o.Quantity = 0
		}
		if r.IntN(3) == 0 {
			o.Key = fmt.Sprint("k", r.IntN(5))
		}
		if r.IntN(4) == 0 {
			o.Mode = "notes the key only"
		}
		l.Orders = append(l.Orders, o)
		if o.OrderID != "" && o.Quantity > 0 && r.IntN(10) == 0 {
			l.Orders = append(l.Orders, o)
		}
	}
	for i := range r.IntN(5) {
		l.Keys = append(l.Keys, api.KeyRow{Key: fmt.Sprint("k", i), Status: []int{200, 200, 0, 409}[r.IntN(4)],
			Mode: []string{"", "m", "other"}[r.IntN(3)]})
	}
	// the rows are milliseconds apart
	l.KeepKeysMS, l.AsOf = int64(r.IntN(4)), noon.Add(time.Duration(r.IntN(8))*time.Millisecond)
	return l
}

// Beyond its limit the tally says how much it left out, and blames nobody for what it has not looked at.
func TestTallyBeyondItsLimit(t *testing.T) {
	t.Parallel()
	in := good()
	for i := range in.Ledger.Orders {
		in.Ledger.Orders[i].Key = fmt.Sprint("k", i)
		in.Ledger.Keys = append(in.Ledger.Keys, api.KeyRow{Key: fmt.Sprint("k", i), Status: 200})
	}
	in.Ledger.Keys = in.Ledger.Keys[3:]
	if r := tallied(in.Ledger, api.SQL, 7); r.Verdict != Exact || len(r.Unchecked) != 1 {
		t.Fatalf("at the limit: %s", r.Text("en"))
	}
	r := tallied(in.Ledger, api.SQL, 5)
	text := strings.Join(r.Unchecked, "\n")
	if r.Verdict != Exact || !strings.Contains(text, "the first 5 of 7 orders") ||
		!strings.Contains(text, "the first 5 of 7 stored answers") {
		t.Errorf("beyond the limit: %s", r.Text("en"))
	}
	in.Ledger.Stock[api.SQL]++
	if r := tallied(in.Ledger, api.SQL, 2); r.Found != "O" {
		t.Errorf("a lost update beyond the limit: %s", r.Text("en"))
	}
}

// A coverage says of each unit how many orders carry it, whatever the order in which they come.
func TestCoverage(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5_000) {
		r := rand.New(rand.NewPCG(seed, 2))
		const stock, units = 20, 26
		var c coverage
		var want [units + 8]int
		for range 1 + r.IntN(20) {
			first := 1 + r.Int64N(units)
			last := first + r.Int64N(5)
			c.add(span{first, last, 1}, stock)
			for u := first; u <= last; u++ {
				want[u]++
			}
		}
		var got [units + 8]int
		before := int64(0)
		for _, run := range c.runs {
			if run.first <= before || run.last < run.first || run.first <= stock && run.last > stock {
				t.Fatalf("seed %d: runs %v", seed, c.runs)
			}
			for u := run.first; u <= run.last; u++ {
				got[u] = run.n
			}
			before = run.last
		}
		if got != want {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
	}
}

func TestCoverageOfAnExactRunIsOneRun(t *testing.T) {
	t.Parallel()
	var c coverage
	const stock, apart = 100_000, 64 // how far orders are out of their order
	r := rand.New(rand.NewPCG(1, 3))
	units := make([]int64, stock)
	for i := range units {
		units[i] = int64(i + 1)
	}
	most := 0
	for i := range units {
		j := i + r.IntN(min(apart, stock-i))
		units[i], units[j] = units[j], units[i]
		c.add(span{units[i], units[i], 1}, stock)
		most = max(most, len(c.runs))
	}
	if len(c.runs) != 1 || most > 2*apart || c.left != 0 {
		t.Errorf("%d runs at the end, %d at most, %d left out, want 1, a few, none", len(c.runs), most, c.left)
	}
	var gaps coverage
	for i := range int64(maxRuns + 100) {
		gaps.add(span{2 * i, 2 * i, 1}, 10*maxRuns)
	}
	if gaps.left == 0 || len(gaps.runs) > maxRuns+1 {
		t.Errorf("of too many runs %d are kept and %d left out", len(gaps.runs), gaps.left)
	}
}
