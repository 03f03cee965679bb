package audit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lastitem/internal/ledger"
)

// holdRun is a run of a service that does everything right, one request after the other has its effect at a moment
// between its call and its answer.
type holdRun struct {
	r       *rand.Rand
	book    HoldBook
	ops     []HoldOp
	holds   []*ledger.Hold
	ends    map[string]string // payment to order
	bought  map[string]int64
	limited bool
	clock   int64 // how far the store's clock is ahead of the clients', in microseconds
}

// aHoldRun makes so many requests.
func aHoldRun(r *rand.Rand, n int, limited bool) *holdRun {
	s := &holdRun{r: r, ends: map[string]string{}, bought: map[string]int64{}, limited: limited,
		clock: int64(r.IntN(60_000) - 30_000)}
	s.book = HoldBook{Initial: int64(1 + r.IntN(5)), Product: 101, Run: 1, BuyerUnits: map[string]int64{}}
	s.book.Stock = s.book.Initial
	if limited {
		s.book.PerBuyer = 2
	}
	for i := range n {
		s.step(i)
	}
	s.book.AsOf = int64(10*(n+1)*1000) + s.clock
	s.sweep(int64(10 * (n + 1)))
	for _, h := range s.holds {
		s.book.Holds = append(s.book.Holds, *h)
	}
	return s
}

func (s *holdRun) note(h *ledger.Hold, to ledger.HoldState, at int64) {
	s.book.Events = append(s.book.Events, ledger.HoldEvent{HoldID: h.ID, Was: h.State, Now: to,
		DeadlineMicros: h.ExpiresMicros,
		AtMicros:       at*1000 + s.clock})
	h.State = to
}

func (s *holdRun) give(h *ledger.Hold) {
	s.book.Stock += heldUnits(*h)
	s.bought[h.Buyer] -= heldUnits(*h)
	s.book.BuyerUnits[h.Buyer] = s.bought[h.Buyer]
}

func (s *holdRun) sweep(now int64) {
	for _, h := range s.holds {
		if h.State == ledger.Held && now*1000+s.clock >= h.ExpiresMicros {
			s.note(h, ledger.Expired, now)
			if s.r.IntN(2) == 0 {
				s.book.Events[len(s.book.Events)-1].CommittedMicros = now*1000 + s.clock + int64(s.r.IntN(2000))
			}
			s.give(h)
		}
	}
}

// step is one request, whose effect is at time 10i; its interval overlaps those beside it.
func (s *holdRun) step(i int) {
	now := int64(10 * i)
	s.sweep(now)
	op := HoldOp{Call: (now - int64(s.r.IntN(15))) * 1e6, Return: (now + int64(s.r.IntN(15))) * 1e6, Outcome: OK,
		Buyer: fmt.Sprint("b", s.r.IntN(2))}
	if len(s.holds) == 0 || s.r.IntN(2) == 0 {
		s.reserve(&op, i, now)
	} else {
		s.end(&op, i, now)
	}
	if s.r.IntN(8) == 0 {
		op.Outcome, op.Refund, op.Expired, op.Limit = Unknown, false, false, false
	}
	s.ops = append(s.ops, op)
}

func (s *holdRun) reserve(op *HoldOp, i int, now int64) {
	op.Kind, op.Quantity = Reserve, int64(1+s.r.IntN(2))
	switch {
	case s.limited && s.bought[op.Buyer]+op.Quantity > s.book.PerBuyer:
		op.Outcome, op.Limit = Refused, true
	case s.book.Stock < op.Quantity:
		op.Outcome = Refused
	default:
		h := &ledger.Hold{ID: fmt.Sprint("h", i), Buyer: op.Buyer, Late: ledger.LateRefund,
			ExpiresMicros: (now+int64(10+s.r.IntN(80)))*1000 + s.clock,
			Items:         []ledger.HoldItem{{ProductID: 101, Quantity: op.Quantity, Run: 1}}}
		s.holds = append(s.holds, h)
		s.note(h, ledger.Held, now)
		s.book.Stock -= op.Quantity
		s.bought[op.Buyer] += op.Quantity
		s.book.BuyerUnits[op.Buyer] = s.bought[op.Buyer]
		op.HoldID = h.ID
	}
}

func (s *holdRun) end(op *HoldOp, i int, now int64) {
	h := s.holds[s.r.IntN(len(s.holds))]
	op.HoldID, op.Buyer = h.ID, h.Buyer
	if s.r.IntN(2) == 0 {
		op.Kind = Cancel
		switch h.State {
		case ledger.Held:
			s.note(h, ledger.Cancelled, now)
			s.give(h)
		case ledger.Confirmed:
			op.Outcome = Refused
		case ledger.Expired:
			op.Expired = true
		}
		return
	}
	op.Kind, op.PaymentID = Confirm, fmt.Sprint("p", i)
	if h.State != ledger.Held {
		op.Outcome, op.Refund, op.Expired = Refused, true, h.State == ledger.Expired
		s.book.Payments = append(s.book.Payments, ledger.Payment{ID: []byte(op.PaymentID), HoldID: h.ID})
		return
	}
	s.note(h, ledger.Confirmed, now)
	op.OrderID = fmt.Sprint("o", i)
	s.book.Payments = append(s.book.Payments, ledger.Payment{ID: []byte(op.PaymentID), HoldID: h.ID, OrderID: op.OrderID})
	s.book.Orders = append(s.book.Orders, HoldOrder{ID: op.OrderID, HoldID: h.ID, PaymentID: op.PaymentID, Buyer: h.Buyer,
		Quantity: heldUnits(*h)})
}

// A service that does everything right is never accused.
func TestHoldsNoFalseAlarm(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 20_000 {
		s := aHoldRun(r, 3+n%20, n%2 == 0)
		if got := JudgeHolds(s.book, s.ops, "en"); got.Found != "" || len(got.Violations) > 0 {
			t.Fatalf("run %d: %s %v\n%+v\n%+v", n, got.Found, got.Violations, s.book, s.ops)
		}
	}
}

// Each flaw is found wherever a run has room for it.
func TestHoldsMutants(t *testing.T) {
	t.Parallel()
	in := func(s *holdRun, state ledger.HoldState) int {
		return slices.IndexFunc(s.book.Holds, func(h ledger.Hold) bool { return h.State == state })
	}
	event := func(s *holdRun, to ledger.HoldState) int {
		return slices.IndexFunc(s.book.Events, func(e ledger.HoldEvent) bool { return e.Now == to })
	}
	answer := func(s *holdRun, kind HoldKind, fits func(HoldOp) bool) int {
		return slices.IndexFunc(s.ops, func(o HoldOp) bool { return o.Kind == kind && fits(o) })
	}
	for name, m := range map[string]struct {
		letter, says string
		harm         func(s *holdRun) bool // false = this run has no room for it
	}{
		"a unit is taken twice": {"O", "more than", func(s *holdRun) bool { s.book.Stock++; return true }},
		"a unit is lost":        {"L", "less than", func(s *holdRun) bool { s.book.Stock--; return true }},
		"released twice": {"O", "more than", func(s *holdRun) bool {
			i := in(s, ledger.Cancelled)
			if i >= 0 {
				s.book.Stock += heldUnits(s.book.Holds[i])
			}
			return i >= 0
		}},
		"expired early": {"", "before the deadline", func(s *holdRun) bool {
			i := event(s, ledger.Expired)
			if i >= 0 {
				s.book.Events[i].AtMicros = s.book.Events[i].DeadlineMicros - 1
			}
			return i >= 0
		}},
		"confirmed late": {"", "after the deadline", func(s *holdRun) bool {
			i := event(s, ledger.Confirmed)
			if i >= 0 {
				s.book.Events[i].AtMicros = s.book.Events[i].DeadlineMicros
			}
			return i >= 0
		}},
		"a cancelled hold is confirmed": {"", "not allowed", func(s *holdRun) bool {
			i := event(s, ledger.Confirmed)
			if i >= 0 {
				s.book.Events[i].Was = ledger.Cancelled
			}
			return i >= 0
		}},
		"held for ever": {"L", "past the deadline", func(s *holdRun) bool {
			i := in(s, ledger.Held)
			if i >= 0 {
				s.book.Holds[i].ExpiresMicros = 0
			}
			return i >= 0
		}},
		"two orders of one hold": {"O", "two orders", func(s *holdRun) bool {
			if len(s.book.Orders) == 0 {
				return false
			}
			o := s.book.Orders[0]
			o.ID = "second"
			s.book.Orders = append(s.book.Orders, o)
			return true
		}},
		"an expired hold was sold": {"O", "has an order", func(s *holdRun) bool {
			i := in(s, ledger.Expired)
			if i >= 0 {
				s.book.Orders = append(s.book.Orders, HoldOrder{ID: "x", HoldID: s.book.Holds[i].ID, PaymentID: "x", Quantity: 1})
			}
			return i >= 0
		}},
		"an acknowledged order is gone": {"A", "not there", func(s *holdRun) bool {
			i := answer(s, Confirm, func(o HoldOp) bool { return o.Outcome == OK })
			if i >= 0 {
				s.ops[i].OrderID = "another"
			}
			return i >= 0
		}},
		"an acknowledged hold is gone": {"A", "not there", func(s *holdRun) bool {
			i := answer(s, Reserve, func(o HoldOp) bool { return o.Outcome == OK })
			if i >= 0 {
				s.ops[i].HoldID = "another"
			}
			return i >= 0
		}},
		"an acknowledged cancellation is gone": {"A", "not executed", func(s *holdRun) bool {
			i := max(in(s, ledger.Expired), in(s, ledger.Confirmed))
			if i >= 0 {
				s.ops = append(s.ops, HoldOp{Kind: Cancel, Outcome: OK, HoldID: s.book.Holds[i].ID, Call: 9e9, Return: 9e9})
			}
			return i >= 0
		}},
		"a key holds twice": {"D", "two reservations", func(s *holdRun) bool {
			for i := range s.book.Holds[:min(2, len(s.book.Holds))] {
				s.book.Holds[i].Key = []byte("k")
			}
			return len(s.book.Holds) > 1
		}},
		"a key is answered two holds": {"D", "two reservations", func(s *holdRun) bool {
			n := 0
			for i, op := range s.ops {
				if op.Kind == Reserve && op.Outcome == OK && n < 2 {
					s.ops[i].Key = "k"
					n++
				}
			}
			return n > 1
		}},
		"refunded and sold": {"D", "refund", func(s *holdRun) bool {
			i := answer(s, Confirm, func(o HoldOp) bool { return o.Outcome == OK })
			if i >= 0 {
				s.ops[i].Outcome, s.ops[i].Refund = Refused, true
			}
			return i >= 0
		}},
		"a payment without an end": {"", "two ends, or none", func(s *holdRun) bool {
			if len(s.book.Orders) > 0 {
				s.book.Orders[0].PaymentID = "nobody's"
			}
			return len(s.book.Orders) > 0
		}},
		"refused though there was enough": {"U", "must have been enough", func(s *holdRun) bool {
			s.ops = append(s.ops, HoldOp{Kind: Reserve, Outcome: Refused, Quantity: 1, Call: -99e6, Return: -98e6, Buyer: "b9"})
			return true
		}},
		"limited though there was room": {"U", "must have had room", func(s *holdRun) bool {
			s.ops = append(s.ops, HoldOp{Kind: Reserve, Outcome: Refused, Limit: true, Quantity: 1, Call: -99e6, Return: -98e6,
				Buyer: "b0"})
			return s.limited
		}},
		"over the limit": {"B", "more than the limit", func(s *holdRun) bool {
			if i := in(s, ledger.Confirmed); i < 0 || !s.limited {
				return false
			}
			s.book.PerBuyer = 0
			s.book.PerBuyer = 1
			for buyer := range s.bought {
				if s.bought[buyer] > 1 {
					return true
				}
			}
			return false
		}},
		"the limit counts what is gone": {"L", "the limit counts", func(s *holdRun) bool {
			for i, h := range s.book.Holds {
				if s.limited && h.Buyer != "" {
					s.book.BuyerUnits[s.book.Holds[i].Buyer]++
					return true
				}
			}
			return false
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(3, 4))
			tried := 0
			for n := range 300 {
				s := aHoldRun(r, 12, n%2 == 0)
				if !m.harm(s) {
					continue
				}
				tried++
				got := JudgeHolds(s.book, s.ops, "en")
				all := strings.Join(append(got.Violations, got.Consequences...), "; ")
				if !strings.Contains(got.Found, m.letter) || !strings.Contains(all, m.says) {
					t.Fatalf("run %d: found %q, %s; want %q and %q", n, got.Found, all, m.letter, m.says)
				}
			}
			if tried < 10 {
				t.Errorf("only %d of 300 runs had room for it", tried)
			}
		})
	}
}

// The times of the store count only within what the answers prove about its clock: taken raw, they accuse a service
// that does everything right.
func TestHoldsTwoClocks(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	raw := 0
	for n := range 3_000 {
		s := aHoldRun(r, 10+n%20, false)
		j := newHoldJudge(s.book, s.ops, "en")
		j.skew = skew{0, 0, 1, true}
		if got := j.judged(); got.Found != "" {
			raw++
		}
	}
	if raw < 100 {
		t.Errorf("raw stamps accuse %d of 3000 runs: the runs have no room for it", raw)
	}
}

// expiring is a book of one unit with holds that expired, the clients' clock ten seconds behind.
func expiring(t *testing.T, ids ...string) (book HoldBook, ops []HoldOp) {
	t.Helper()
	book = HoldBook{Initial: 1, Stock: 1, Product: 101, Run: 1, AsOf: 12_000_000}
	for i, id := range ids {
		at := 10_000_100 + int64(i)
		book.Holds = append(book.Holds, ledger.Hold{ID: id, State: ledger.Expired, ExpiresMicros: 10_100_000,
			Items: []ledger.HoldItem{{ProductID: 101, Quantity: 1, Run: 1}}})
		book.Events = append(book.Events, ledger.HoldEvent{HoldID: id, Now: ledger.Held, DeadlineMicros: 10_100_000,
			AtMicros: at},
			ledger.HoldEvent{HoldID: id, Was: ledger.Held, Now: ledger.Expired, DeadlineMicros: 10_100_000, AtMicros: 10_150_000,
				CommittedMicros: 10_151_000})
		ops = append(ops, HoldOp{Kind: Reserve, Outcome: OK, HoldID: id, Quantity: 1, Call: 0, Return: 200_000})
	}
	return book, ops
}

func TestHoldsExpiryInTime(t *testing.T) {
	t.Parallel()
	refused := func(call, end int64) HoldOp {
		return HoldOp{Kind: Reserve, Outcome: Refused, Quantity: 1, Call: call, Return: end}
	}
	one, ops := expiring(t, "a")
	two, twice := expiring(t, "a", "b")
	moved := slices.Clone(ops)
	moved[0].Call, moved[0].Return = 1e9, 2e9
	late := func(book HoldBook, ops []HoldOp) (HoldBook, []HoldOp) { // two hours later, another reservation is gone
		book.AsOf += 2 * 3600e6
		return book, append(slices.Clone(ops), HoldOp{Kind: Reserve, Outcome: OK, HoldID: "gone", Quantity: 1, Call: 1,
			Return: 2})
	}
	old, gone := late(one, ops)
	unstamped, _ := expiring(t, "a")
	unstamped.Events[1].CommittedMicros = 0
	coarse, fast := expiring(t, "a") // a clock that ticks in milliseconds, and an answer within one
	coarse.Events[0].AtMicros, fast[0].Call, fast[0].Return = 10_000_000, 700_000, 800_000
	fast = append(fast, HoldOp{Kind: Reserve, Outcome: OK, HoldID: "b", Quantity: 1, Call: 1_100_000, Return: 1_300_000},
		HoldOp{Kind: Cancel, Outcome: OK, HoldID: "b", Call: 1_400_000, Return: 1_500_000})
	coarse.Initial, coarse.Stock, coarse.Holds = 2, 2, append(coarse.Holds, ledger.Hold{ID: "b", State: ledger.Cancelled,
		ExpiresMicros: 10_100_000, Items: coarse.Holds[0].Items})
	coarse.Events = append(coarse.Events, ledger.HoldEvent{HoldID: "b", Now: ledger.Held, DeadlineMicros: 10_100_000,
		AtMicros: 10_001_000}, ledger.HoldEvent{HoldID: "b", Was: ledger.Held, Now: ledger.Cancelled, AtMicros: 10_001_000})
	for name, tt := range map[string]struct {
		book  HoldBook
		ops   []HoldOp
		found string
		skips bool
	}{
		"a clock of milliseconds":             {coarse, fast, "", false},
		"refused before the sweep":            {one, append(slices.Clone(ops), refused(120e6, 150e6)), "", false},
		"refused while the sweep may run":     {one, append(slices.Clone(ops), refused(151_050_000, 160e6)), "", false},
		"refused after the sweep":             {one, append(slices.Clone(ops), refused(152e6, 160e6)), "U", false},
		"refused after a sweep without stamp": {unstamped, append(slices.Clone(ops), refused(152e6, 160e6)), "", false},
		"held twice, expired since":           {two, twice, "O", false},
		"removed after an hour":               {old, gone, "", true},
		"lost within the hour":                {one, gone, "A", false},
		"a lost release excuses":              {one, append(slices.Clone(gone), refused(152e6, 160e6)), "A", false},
		"a clock was set":                     {one, slices.Concat(ops, moved, []HoldOp{refused(9e9, 9e9)}), "", true},
	} {
		got := JudgeHolds(tt.book, tt.ops, "en")
		if got.Found != tt.found || len(got.Unchecked) > 0 != tt.skips {
			t.Errorf("%s: found %q, unchecked %q, want %q, %v", name, got.Found, got.Unchecked, tt.found, tt.skips)
		}
	}
}

// A run says what it could not have shown.
func TestHoldRunWeighs(t *testing.T) {
	t.Parallel()
	book, ops := expiring(t, "a")
	stock := int64(1)
	run := HoldRun{Mode: "m", Replicas: 2, Stock: &stock, WantSoldOut: true, Stopped: true, Expiry: true}
	got := run.Judge(book, ops, "en")
	if got.Verdict != Vacuous || len(got.Missing) != 4 || len(got.Unchecked) != 1 {
		t.Errorf("verdict %s, missing %q, unchecked %q, want VACUOUS for 4 reasons, too few races", got.Verdict, got.Missing,
			got.Unchecked)
	}
	stock = 2
	if got := run.Judge(book, ops, "en"); got.Verdict != Inconclusive {
		t.Errorf("with another stock: %s, want INCONCLUSIVE", got.Verdict)
	}
}

// Two holds of the last unit, both cancelled since: the book is clean, and still more was held than there was.
func TestHeldTooMuchAtOnce(t *testing.T) {
	t.Parallel()
	item := []ledger.HoldItem{{ProductID: 101, Quantity: 1, Run: 1}}
	book := HoldBook{Initial: 1, Stock: 1, Product: 101, Run: 1}
	var ops []HoldOp
	for i, id := range []string{"a", "b"} {
		book.Holds = append(book.Holds, ledger.Hold{ID: id, State: ledger.Cancelled, ExpiresMicros: 1 << 50, Items: item})
		book.Events = append(book.Events, ledger.HoldEvent{HoldID: id, Now: ledger.Held, DeadlineMicros: 1 << 50},
			ledger.HoldEvent{HoldID: id, Was: ledger.Held, Now: ledger.Cancelled, DeadlineMicros: 1 << 50})
		ops = append(ops, HoldOp{Kind: Reserve, Outcome: OK, HoldID: id, Quantity: 1, Call: int64(i), Return: int64(10 + i)},
			HoldOp{Kind: Cancel, Outcome: OK, HoldID: id, Call: int64(20 + i), Return: int64(30 + i)})
	}
	if got := JudgeHolds(book, ops, "en"); got.Found != "O" {
		t.Errorf("found %q, %v, want O", got.Found, got.Violations)
	}
}

// The rule for refusals agrees with an exhaustive search: it accuses only where no order of events explains the
// answers.
func TestHoldRefusalsAreSound(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	accused, missed := 0, 0
	for range samples {
		initial := int64(1 + r.IntN(3))
		var takes []taken
		for range 1 + r.IntN(3) {
			call := int64(r.IntN(8))
			k := taken{units: int64(1 + r.IntN(2)), call: call, answer: call + int64(r.IntN(8)), freed: never, free: never}
			if r.IntN(2) == 0 {
				k.freed = k.answer + int64(r.IntN(8))
				k.free = k.freed + int64(r.IntN(8))
			}
			takes = append(takes, k)
		}
		q, call := int64(1+r.IntN(2)), int64(r.IntN(12))
		end := call + int64(r.IntN(6))
		if !explained(initial, takes, nil) {
			continue // the takes alone are impossible
		}
		bad := newShelf(takes, initial).fewest(call, end) >= q
		possible := explained(initial, takes, &taken{units: q, call: call, answer: end})
		switch {
		case bad && possible:
			t.Fatalf("%d, %+v: a refusal of %d in [%d, %d] is accused, and has an explanation", initial, takes, q, call, end)
		case bad:
			accused++
		case !possible:
			missed++
		}
	}
	if accused < 500 {
		t.Errorf("accused %d (and missed %d): the samples have no room for it", accused, missed)
	}
}

// explained tries every order of takes, releases and the refusal.
func explained(initial int64, takes []taken, refusal *taken) bool {
	type event struct {
		call, answer, units int64
		after               int // the take that comes first; -1 = none
		refusal             bool
	}
	var all []event
	for _, k := range takes {
		all = append(all, event{k.call, k.answer, -k.units, -1, false})
	}
	for i, k := range takes {
		if k.free != never {
			all = append(all, event{k.freed, k.free, k.units, i, false})
		}
	}
	if refusal != nil {
		all = append(all, event{refusal.call, refusal.answer, refusal.units, -1, true})
	}
	var try func(done uint, free int64) bool
	try = func(done uint, free int64) bool {
		if done == 1<<len(all)-1 {
			return true
		}
		earliest := never
		for i, e := range all {
			if done&(1<<i) == 0 {
				earliest = min(earliest, e.answer)
			}
		}
		for i, e := range all {
			if done&(1<<i) != 0 || e.call > earliest || e.after >= 0 && done&(1<<e.after) == 0 {
				continue
			}
			switch {
			case e.refusal && free < e.units && try(done|1<<i, free):
				return true
			case !e.refusal && free+e.units >= 0 && try(done|1<<i, free+e.units):
				return true
			}
		}
		return false
	}
	return try(0, initial)
}
