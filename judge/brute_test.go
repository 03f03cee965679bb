package judge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lastitem/contract/api"
)

// samples is how many random histories each test tries.
const samples = 20_000

// small is a random history of one product with the rows it left, for a checker that tries everything.
type small struct {
	initial int64
	ops     []Op
	rows    []api.Order
}

// randomSmall makes up to six requests of clients that answer as they please. An ok has its row; an unknown sometimes
// has.
func randomSmall(r *rand.Rand) small {
	s := small{initial: int64(r.IntN(6))}
	keyless := r.IntN(3) == 0 // rows do not record keys
	for i := range 1 + r.IntN(6) {
		call := int64(r.IntN(12))
		o := op([]Outcome{OK, OK, Refused, Refused, Unknown, Declined}[r.IntN(6)], call, call+1+int64(r.IntN(8)),
			int64(1+r.IntN(3)), "", "")
		if r.IntN(3) == 0 {
			o.Key = fmt.Sprint("k", i)
		}
		if o.Outcome == OK || o.Outcome == Unknown && r.IntN(2) == 0 {
			id := fmt.Sprint("o", i)
			s.rows = append(s.rows, api.Order{OrderID: id, ProductID: 101, Quantity: o.Quantity, Store: api.SQL, Key: o.Key})
			if keyless {
				s.rows[len(s.rows)-1].Key = ""
			}
			if o.Outcome == OK {
				o.OrderID = id
			}
		}
		s.ops = append(s.ops, o)
	}
	return s
}

func (s small) sold() (sum int64) {
	for _, o := range s.rows {
		sum += o.Quantity
	}
	return sum
}

// linear tries every order of the requests, every choice of which unknown ones happened, and tells whether a counter
// that starts at stock can have given these answers, every sale fits what it left, and accept takes the end.
func linear(
	ops []Op, done uint, stock int64, took []int64, fits func(i int, left int64) bool,
	accept func(stock int64, took []int64) bool,
) bool {
	earliest := int64(1 << 60) // a request that was called after another's return takes effect after it
	pending := false
	for i, o := range ops {
		if done&(1<<i) == 0 && (o.Outcome == OK || o.Outcome == Refused) {
			pending = true
			earliest = min(earliest, o.Return)
		}
	}
	if !pending && accept(stock, took) {
		return true
	}
	for i, o := range ops {
		if done&(1<<i) != 0 || o.Call > earliest || o.Outcome == Declined {
			continue
		}
		left, now := stock, took
		switch o.Outcome {
		case Refused:
			if stock >= o.Quantity {
				continue
			}
		default:
			if left -= o.Quantity; left < 0 || !fits(i, left) {
				continue
			}
			if o.Outcome == Unknown {
				now = append(append([]int64{}, took...), int64(i))
			}
		}
		if linear(ops, done|1<<i, left, now, fits, accept) {
			return true
		}
	}
	return false
}

// anySale is for orders that do not say what they left.
func anySale(int, int64) bool { return true }

// explains tells whether exactly these unknown requests having happened accounts for the rows that no ok names.
func (s small) explains(_ int64, took []int64) bool {
	type kind struct {
		quantity int64
		key      string
	}
	keyed := slices.ContainsFunc(s.rows, func(o api.Order) bool { return o.Key != "" })
	kindOf := func(quantity int64, key string) kind {
		if !keyed { // the service may record no keys
			key = ""
		}
		return kind{quantity, key}
	}
	want := map[kind]int{}
	for _, o := range s.rows {
		want[kindOf(o.Quantity, o.Key)]++
	}
	for _, o := range s.ops {
		if o.Outcome == OK {
			want[kindOf(o.Quantity, o.Key)]--
		}
	}
	for _, i := range took {
		want[kindOf(s.ops[i].Quantity, s.ops[i].Key)]--
	}
	for _, n := range want {
		if n != 0 {
			return false
		}
	}
	return true
}

// unsafe tells whether more was seen than that nobody could finish, which no search over answers can see.
func unsafe(r Report) bool { return len(r.Violations) > 0 || strings.Trim(r.Found, "X") != "" }

// TestClosedFormAgrees holds the closed form against exhaustive search on random small histories, mixed quantities and
// unknown outcomes included.
func TestClosedFormAgrees(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	legal := 0
	for range samples {
		s := randomSmall(r)
		want := linear(s.ops, 0, s.initial, nil, anySale, s.explains)
		got := Judge(Input{Store: api.SQL, History: s.ops, Ledger: &api.Ledger{
			ProductID: 101, Orders: s.rows,
			Initial: map[api.Store]int64{api.SQL: s.initial}, Stock: map[api.Store]int64{api.SQL: s.initial - s.sold()},
		}})
		if is := got.Oversold == 0 && got.BadRefusals == 0; is != want {
			t.Fatalf("closed form says %v, search says %v\ninitial %d\nops %+v\nrows %+v\n%s", is, want, s.initial, s.ops,
				s.rows, got.Text("en"))
		}
		if unsafe(got) == want {
			t.Fatalf("Judge = %s, search says %v\ninitial %d\nops %+v\nrows %+v\n%s", got.Verdict, want, s.initial, s.ops,
				s.rows, got.Text("en"))
		}
		if want {
			legal++
		}
	}
	t.Logf("%d of %d are legal", legal, samples)
	if legal < samples/10 || legal > samples*9/10 {
		t.Errorf("%d of %d histories are legal: the sample is lopsided", legal, samples)
	}
}

// TestForeignIsSound checks that Foreign accuses only where no explanation exists, calls exact only what has one,
// and with every answer there misses nothing.
func TestForeignIsSound(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	seen := map[Verdict]int{}
	for range samples {
		s := randomSmall(r)
		after := s.initial - s.sold() + int64(max(0, r.IntN(8)-5)) - int64(max(0, r.IntN(8)-5))
		want := linear(s.ops, 0, s.initial, nil, anySale, func(stock int64, _ []int64) bool { return stock == after })
		got := Foreign(s.initial, after, Input{History: s.ops})
		seen[got.Verdict]++
		if got.Answers[Unknown] == 0 && unsafe(got) == want || unsafe(got) && want || got.Verdict == Exact && !want {
			t.Fatalf("Foreign = %s, search says %v\ninitial %d after %d\nops %+v\n%s", got.Verdict, want, s.initial, after,
				s.ops, got.Text("en"))
		}
	}
	t.Log(seen)
	for _, v := range []Verdict{Exact, Broken, Inconclusive, Vacuous} {
		if seen[v] < samples/400 {
			t.Errorf("%s was seen %d times: the sample is lopsided", v, seen[v])
		}
	}
}
