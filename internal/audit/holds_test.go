package audit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lastitem/internal/api"
	"lastitem/internal/ledger"
)

// holdRun is a run of a service that does everything right, one request after the other has its effect at a moment
// between its call and its answer.
type holdRun struct {
	r       *rand.Rand
	book    *api.Reservations
	ops     []HoldOp
	holds   []*api.ReservationRow
	bought  map[string]int64
	limited bool
	clock   int64 // how far the store's clock is ahead of the clients', in microseconds
}

// aHoldRun makes so many requests.
func aHoldRun(r *rand.Rand, n int, limited bool) *holdRun {
	s := &holdRun{r: r, bought: map[string]int64{}, limited: limited,
		clock: int64(r.IntN(60_000) - 30_000)}
	s.book = &api.Reservations{Initial: int64(1 + r.IntN(5)), ProductID: 101, Run: 1, BuyerUnits: map[string]int64{}}
	s.book.Stock = s.book.Initial
	if limited {
		s.book.PerBuyer = 2
	}
	for i := range n {
		s.step(i)
	}
	s.book.AsOfMicros = int64(10*(n+1)*1000) + s.clock
	s.sweep(int64(10 * (n + 1)))
	for _, h := range s.holds {
		s.book.Rows = append(s.book.Rows, *h)
	}
	return s
}

func (s *holdRun) note(h *api.ReservationRow, to string, at int64) {
	h.Events = append(h.Events, api.ReservationEvent{Was: h.State, Now: to, DeadlineMicros: h.ExpiresMicros,
		AtMicros: at*1000 + s.clock})
	h.State = to
}

func (s *holdRun) give(h *api.ReservationRow) {
	s.book.Stock += h.Quantity
	s.bought[h.Buyer] -= h.Quantity
	s.book.BuyerUnits[h.Buyer] = s.bought[h.Buyer]
}

func (s *holdRun) sweep(now int64) {
	for _, h := range s.holds {
		if h.State == held && now*1000+s.clock >= h.ExpiresMicros {
			s.note(h, expired, now)
			if s.r.IntN(2) == 0 {
				h.Events[len(h.Events)-1].CommittedMicros = now*1000 + s.clock + int64(s.r.IntN(2000))
			}
			s.give(h)
		}
	}
}

// step is one request, whose effect is at time 10i; its interval overlaps those beside it.
func (s *holdRun) step(i int) {
	now := int64(10 * i)
	s.sweep(now)
	if i%3 == 0 && len(s.holds) > 0 { // somebody else extends one
		if h := s.holds[len(s.holds)-1]; h.State == held && len(h.Events) == 1 {
			h.ExpiresMicros += 20_000
			s.note(h, held, now)
		}
	}
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
		h := &api.ReservationRow{ReservationID: fmt.Sprint("h", i), Buyer: op.Buyer, Late: ledger.LateRefund,
			ExpiresMicros: (now+int64(10+s.r.IntN(80)))*1000 + s.clock, Quantity: op.Quantity}
		s.holds = append(s.holds, h)
		s.note(h, held, now)
		s.book.Stock -= op.Quantity
		s.bought[op.Buyer] += op.Quantity
		s.book.BuyerUnits[op.Buyer] = s.bought[op.Buyer]
		op.HoldID = h.ReservationID
	}
}

func (s *holdRun) end(op *HoldOp, i int, now int64) {
	h := s.holds[s.r.IntN(len(s.holds))]
	op.HoldID, op.Buyer = h.ReservationID, h.Buyer
	if s.r.IntN(2) == 0 {
		op.Kind = Cancel
		switch h.State {
		case held:
			s.note(h, cancelled, now)
			s.give(h)
		case confirmed:
			op.Outcome = Refused
		case expired:
			op.Expired = true
		}
		return
	}
	op.Kind, op.PaymentID = Confirm, fmt.Sprint("p", i)
	if h.State != held {
		op.Outcome, op.Refund, op.Expired = Refused, true, h.State == expired
		h.Payments = append(h.Payments, api.ReservationPaid{Payment: op.PaymentID})
		return
	}
	s.note(h, confirmed, now)
	op.OrderID = fmt.Sprint("o", i)
	h.Payments = append(h.Payments, api.ReservationPaid{Payment: op.PaymentID, OrderID: op.OrderID})
	h.Orders = append(h.Orders, api.ReservationOrder{OrderID: op.OrderID, Payment: op.PaymentID, Quantity: h.Quantity})
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
	type harm = func(s *holdRun) bool // false = this run has no room for it
	row := func(state string, do func(s *holdRun, h *api.ReservationRow)) harm {
		return func(s *holdRun) bool {
			i := slices.IndexFunc(s.book.Rows, func(h api.ReservationRow) bool { return h.State == state })
			if i >= 0 {
				do(s, &s.book.Rows[i])
			}
			return i >= 0
		}
	}
	event := func(to string, do func(e *api.ReservationEvent)) harm {
		return func(s *holdRun) bool {
			for _, h := range s.book.Rows {
				i := slices.IndexFunc(h.Events, func(e api.ReservationEvent) bool { return e.Now == to })
				if i >= 0 {
					do(&h.Events[i])
					return true
				}
			}
			return false
		}
	}
	// the last event, which led to a state, comes when the deadline before the extension did, and knows only that one
	extended := func(to string) harm {
		return func(s *holdRun) bool {
			for _, h := range s.book.Rows {
				last := len(h.Events) - 1
				if last > 0 && h.Events[1].Now == held && h.State == to {
					h.Events[last].AtMicros = h.Events[0].DeadlineMicros
					if last > 1 {
						h.Events[last].DeadlineMicros = h.Events[0].DeadlineMicros
					}
					return true
				}
			}
			return false
		}
	}
	acknowledged := func(kind HoldKind, do func(op *HoldOp)) harm {
		return func(s *holdRun) bool {
			i := slices.IndexFunc(s.ops, func(o HoldOp) bool { return o.Kind == kind && o.Outcome == OK })
			if i >= 0 {
				do(&s.ops[i])
			}
			return i >= 0
		}
	}
	cancel := func(s *holdRun, h *api.ReservationRow) { // is answered
		s.ops = append(s.ops, HoldOp{Kind: Cancel, Outcome: OK, HoldID: h.ReservationID, Call: 9e9, Return: 9e9})
	}
	for name, m := range map[string]struct {
		letter, says string
		harm         harm
	}{
		"a unit is taken twice": {"O", "more than", func(s *holdRun) bool { s.book.Stock++; return true }},
		"a unit is lost":        {"L", "less than", func(s *holdRun) bool { s.book.Stock--; return true }},
		"released twice": {"O", "more than", row(cancelled, func(s *holdRun, h *api.ReservationRow) {
			s.book.Stock += h.Quantity
		})},
		"expired early": {"", "before the deadline", event(expired, func(e *api.ReservationEvent) {
			e.AtMicros = e.DeadlineMicros - 1
		})},
		"confirmed late": {"", "after the deadline", event(confirmed, func(e *api.ReservationEvent) {
			e.AtMicros = e.DeadlineMicros
		})},
		"expired by the deadline before its extension": {"", "before the deadline", extended(expired)},
		"extended late": {"", "after the deadline", extended(held)},
		"a cancelled hold is confirmed": {"", "not allowed", event(confirmed, func(e *api.ReservationEvent) {
			e.Was = cancelled
		})},
		"held for ever": {"L", "past the deadline", row(held, func(_ *holdRun, h *api.ReservationRow) {
			h.ExpiresMicros = 0
		})},
		"two orders of one hold": {"O", "two orders", row(confirmed, func(_ *holdRun, h *api.ReservationRow) {
			second := h.Orders[0]
			second.OrderID = "second"
			h.Orders = append(h.Orders, second)
		})},
		"an expired hold was sold": {"O", "has an order", row(expired, func(_ *holdRun, h *api.ReservationRow) {
			h.Orders = append(h.Orders, api.ReservationOrder{OrderID: "x", Payment: "x", Quantity: 1})
		})},
		"an acknowledged order is gone": {"A", "not there", acknowledged(Confirm, func(op *HoldOp) {
			op.OrderID = "another"
		})},
		"an acknowledged hold is gone": {"A", "not there", acknowledged(Reserve, func(op *HoldOp) {
			op.HoldID = "another"
		})},
		"an acknowledged cancellation is gone":       {"A", "not executed", row(confirmed, cancel)},
		"an acknowledged cancellation was an expiry": {"A", "not executed", row(expired, cancel)},
		"a key holds twice": {"D", "two reservations", func(s *holdRun) bool {
			for i := range s.book.Rows[:min(2, len(s.book.Rows))] {
				s.book.Rows[i].Key = "k"
			}
			return len(s.book.Rows) > 1
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
		"refunded and sold": {"D", "refund", acknowledged(Confirm, func(op *HoldOp) {
			op.Outcome, op.Refund = Refused, true
		})},
		"a payment without an end": {"", "two ends, or none", row(confirmed, func(_ *holdRun, h *api.ReservationRow) {
			h.Orders[0].Payment = "nobody's"
		})},
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
			s.book.PerBuyer = 1
			return s.limited && slices.Max(append(slices.Collect(maps.Values(s.bought)), 0)) > 1
		}},
		"the limit counts what is gone": {"L", "the limit counts", func(s *holdRun) bool {
			if s.limited && len(s.holds) > 0 {
				s.book.BuyerUnits[s.holds[0].Buyer]++
			}
			return s.limited && len(s.holds) > 0
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
func expiring(ids ...string) (book *api.Reservations, ops []HoldOp) {
	book = &api.Reservations{Initial: 1, Stock: 1, ProductID: 101, Run: 1, AsOfMicros: 12_000_000}
	for i, id := range ids {
		at := 10_000_100 + int64(i)
		book.Rows = append(book.Rows, api.ReservationRow{ReservationID: id, State: expired, ExpiresMicros: 10_100_000,
			Quantity: 1, Events: []api.ReservationEvent{
				{Now: held, DeadlineMicros: 10_100_000, AtMicros: at},
				{Was: held, Now: expired, DeadlineMicros: 10_100_000, AtMicros: 10_150_000, CommittedMicros: 10_151_000}}})
		ops = append(ops, HoldOp{Kind: Reserve, Outcome: OK, HoldID: id, Quantity: 1, Call: 0, Return: 200_000})
	}
	return book, ops
}

func TestHoldsExpiryInTime(t *testing.T) {
	t.Parallel()
	refused := func(call, end int64) HoldOp {
		return HoldOp{Kind: Reserve, Outcome: Refused, Quantity: 1, Call: call, Return: end}
	}
	one, ops := expiring("a")
	two, twice := expiring("a", "b")
	moved := slices.Clone(ops)
	moved[0].Call, moved[0].Return = 1e9, 2e9
	old, _ := expiring("a") // two hours later, another reservation is gone
	old.AsOfMicros += 2 * 3600e6
	gone := append(slices.Clone(ops), HoldOp{Kind: Reserve, Outcome: OK, HoldID: "gone", Quantity: 1, Call: 1, Return: 2})
	unstamped, _ := expiring("a")
	unstamped.Rows[0].Events[1].CommittedMicros = 0
	coarse, fast := expiring("a") // a clock that ticks in milliseconds, and an answer within one
	coarse.Rows[0].Events[0].AtMicros, fast[0].Call, fast[0].Return = 10_000_000, 700_000, 800_000
	fast = append(fast, HoldOp{Kind: Reserve, Outcome: OK, HoldID: "b", Quantity: 1, Call: 1_100_000, Return: 1_300_000},
		HoldOp{Kind: Cancel, Outcome: OK, HoldID: "b", Call: 1_400_000, Return: 1_500_000})
	coarse.Initial, coarse.Stock = 2, 2
	coarse.Rows = append(coarse.Rows, api.ReservationRow{ReservationID: "b", State: cancelled, ExpiresMicros: 10_100_000,
		Quantity: 1, Events: []api.ReservationEvent{{Now: held, DeadlineMicros: 10_100_000, AtMicros: 10_001_000},
			{Was: held, Now: cancelled, AtMicros: 10_001_000}}})
	for name, tt := range map[string]struct {
		book  *api.Reservations
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
	book, ops := expiring("a")
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
	book := &api.Reservations{Initial: 1, Stock: 1, ProductID: 101, Run: 1}
	var ops []HoldOp
	for i, id := range []string{"a", "b"} {
		book.Rows = append(book.Rows, api.ReservationRow{ReservationID: id, State: cancelled, ExpiresMicros: 1 << 50,
			Quantity: 1, Events: []api.ReservationEvent{{Now: held, DeadlineMicros: 1 << 50},
				{Was: held, Now: cancelled, DeadlineMicros: 1 << 50}}})
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
		bad := shelfOf(takes, initial).fewest(call, end) >= q
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
