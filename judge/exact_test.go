package judge

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lastitem/contract/api"
)

// exactShop executes requests one at a time, honours keys for a time, and loses answers. It is exact by construction.
type exactShop struct {
	rng        *rand.Rand
	keys       time.Duration // how long keys are kept; 0 = forever
	bare       bool          // the orders do not show their keys
	remaining  bool          // the orders say what they left
	ledger     *api.Ledger
	stock      int64
	stored     map[string]storedAnswer
	quantities map[string]int64
}

type storedAnswer struct {
	at       time.Duration
	outcome  Outcome
	order    string
	remained int64
}

// run executes a few requests of random times and returns what the judge gets.
func (x *exactShop) run() Input {
	initial := x.rng.Int64N(7)
	x.stock, x.stored, x.quantities = initial, map[string]storedAnswer{}, map[string]int64{}
	x.ledger = &api.Ledger{ProductID: 101, Initial: map[api.Store]int64{api.SQL: initial},
		KeepKeysMS: x.keys.Milliseconds()}
	type execution struct {
		at time.Duration
		op int
	}
	var ops []Op
	var order []execution
	for i := range 1 + x.rng.IntN(9) {
		o := x.request()
		at := time.Duration(o.Call) + x.within(10)
		o.Client, o.Return = i, int64(at+x.within(10))
		ops, order = append(ops, o), append(order, execution{at, i})
	}
	slices.SortFunc(order, func(a, b execution) int { return cmp.Compare(a.at, b.at) })
	for n, e := range order {
		if x.rng.IntN(3) > 0 {
			x.purge(e.at)
		}
		x.execute(&ops[e.op], e.at, fmt.Sprint("o", n))
	}
	for key, a := range x.stored {
		x.ledger.Keys = append(x.ledger.Keys, answer(key, map[Outcome]int{OK: 200, Refused: 409}[a.outcome], a.at))
	}
	if x.bare {
		x.ledger.Keys = nil
	}
	x.ledger.Stock = map[api.Store]int64{api.SQL: x.stock}
	x.ledger.AsOf = noon.Add(order[len(order)-1].at)
	return Input{Mode: "m", Store: api.SQL, Ledger: x.ledger, Sequential: true, Directed: true, History: ops}
}

// within is a time of up to so many milliseconds, and not 0.
func (x *exactShop) within(ms int) time.Duration {
	return time.Duration(x.rng.IntN(ms))*time.Millisecond + 1
}

// request is a request for one or two units, which may repeat an earlier one.
func (x *exactShop) request() Op {
	o := op(Unknown, int64(x.within(60)), 0, 1+x.rng.Int64N(2), "", "")
	o.Replica = "1"
	if x.rng.IntN(4) > 0 {
		o.Key = fmt.Sprint("k", x.rng.IntN(3))
		if _, seen := x.quantities[o.Key]; !seen {
			x.quantities[o.Key] = o.Quantity
		}
		o.Quantity = x.quantities[o.Key]
	}
	return o
}

// purge removes old keys.
func (x *exactShop) purge(now time.Duration) {
	for key, a := range x.stored {
		if x.keys > 0 && now-a.at >= x.keys {
			delete(x.stored, key)
		}
	}
}

// execute answers a request, or loses its answer.
func (x *exactShop) execute(o *Op, now time.Duration, id string) {
	a, known := x.stored[o.Key]
	busy := !known && x.rng.IntN(8) == 0
	switch {
	case known:
	case busy:
		a = storedAnswer{outcome: Declined}
	default:
		a = x.sell(*o, now, id)
		if o.Key != "" {
			x.stored[o.Key] = a
		}
	}
	if x.rng.IntN(4) == 0 {
		o.Return = 0 // lost
		return
	}
	o.Outcome, o.OrderID, o.Replayed = a.outcome, a.order, known
	if busy {
		o.Code = api.LockBusy
	}
	if a.outcome == OK && x.remaining {
		o.Remaining = &a.remained
	}
}

// sell takes the units if they are there.
func (x *exactShop) sell(o Op, now time.Duration, id string) storedAnswer {
	if x.stock < o.Quantity {
		return storedAnswer{at: now, outcome: Refused}
	}
	x.stock -= o.Quantity
	sold := row(id, o.Quantity, x.stock, o.Key, 0)
	sold.CreatedAt, sold.Replica = noon.Add(now), "1"
	if x.bare {
		sold.Key = ""
	}
	if !x.remaining {
		sold.Remaining = nil
	}
	x.ledger.Orders = append(x.ledger.Orders, sold)
	return storedAnswer{now, OK, id, x.stock}
}

// No history of an exact shop is called broken, whatever answers are lost.
func TestExactShopIsNotBlamed(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, x := range map[string]exactShop{
		"keys are kept":                     {remaining: true},
		"keys are used again":               {remaining: true, keys: 20 * ms},
		"orders show no keys":               {bare: true, remaining: true},
		"orders show neither keys nor rest": {bare: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x.rng = rand.New(rand.NewPCG(7, 8))
			for range samples {
				in := x.run()
				if r := Judge(in); r.Verdict == Broken && unsafe(r) {
					t.Fatalf("%s\n%+v\n%+v", r.Text("en"), in.History, *in.Ledger)
				}
			}
		})
	}
}

// Where every order says what it left, the judge finds exactly the histories that have no order.
func TestOrderByRemaining(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	legal := 0
	for range samples {
		in, left := soldInAnyOrder(r)
		fits := func(i int, now int64) bool { return now == left[i] }
		sold := len(in.Ledger.Orders)
		for _, o := range in.History {
			if o.Outcome == OK {
				sold--
			}
		}
		want := linear(in.History, 0, in.Ledger.Initial[api.SQL], nil, fits, func(_ int64, took []int64) bool {
			return len(took) == sold
		})
		if want {
			legal++
		}
		if got := Judge(in); unsafe(got) == want {
			t.Fatalf("an order exists: %t, and the judge says\n%s\n%+v left %v", want, got.Text("en"), in.History, left)
		}
	}
	if legal < samples/10 || legal > samples*9/10 {
		t.Errorf("%d of %d histories are legal: these are no test", legal, samples)
	}
}

// soldInAnyOrder sells to random requests, in an order that need not fit their times.
func soldInAnyOrder(r *rand.Rand) (in Input, left []int64) {
	for {
		stock := r.Int64N(5)
		l := books(stock, 0)
		var ops []Op
		var buyers []int
		for i := range 1 + r.IntN(5) {
			call := r.Int64N(12)
			o := op([]Outcome{OK, OK, Refused, Unknown}[r.IntN(4)], call, call+1+r.Int64N(8), 1+r.Int64N(2), "",
				fmt.Sprint("k", i))
			if o.Outcome == OK || o.Outcome == Unknown && r.IntN(2) == 0 {
				buyers = append(buyers, i)
			}
			ops = append(ops, o)
		}
		r.Shuffle(len(buyers), func(a, b int) { buyers[a], buyers[b] = buyers[b], buyers[a] })
		left = slices.Repeat([]int64{-1}, len(ops))
		for _, i := range buyers {
			stock -= ops[i].Quantity
			left[i] = stock
			sold := row(fmt.Sprint("o", i), ops[i].Quantity, stock, ops[i].Key, 0)
			sold.CreatedAt = time.Time{}
			l.Orders = append(l.Orders, sold)
			if ops[i].Outcome == OK {
				ops[i].OrderID, ops[i].Remaining = sold.OrderID, sold.Remaining
			}
		}
		if stock >= 0 {
			l.Stock[api.SQL] = stock
			return Input{Store: api.SQL, Ledger: l, History: ops, Directed: true}, left
		}
	}
}
