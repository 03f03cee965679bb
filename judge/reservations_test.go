package judge

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
)

// reservationRun is a run of a service that does everything right: each request has its effect at one moment between
// its call and its answer. Times are in microseconds of the clients' clock.
type reservationRun struct {
	r           *rand.Rand
	book        *api.Reservations
	ops         []ReservationOp
	holds       []*api.ReservationRow
	clock, tick int64 // how far the store's clock is ahead, and how it ticks
	late        string
	sweeps      int64 // when the next one is
}

// aReservationRun makes so many requests.
func aReservationRun(r *rand.Rand, n int, limited bool) *reservationRun {
	s := &reservationRun{r: r, tick: 1, clock: []int64{0, 1e9, 1e9 - 5e6}[r.IntN(3)] + int64(r.IntN(60_000)-30_000),
		late: []string{ledger.LateRefund, ledger.LateRehold}[r.IntN(2)]}
	if r.IntN(4) == 0 {
		s.tick = 1000
	}
	s.book = &api.Reservations{Initial: int64(1 + r.IntN(5)), ProductID: 101, Run: 1, BuyerUnits: map[string]int64{}}
	s.book.Stock = s.book.Initial
	if limited {
		s.book.PerBuyer = 2
	}
	now := int64(1_000_000)
	for i := range n {
		now += int64(500 + r.IntN(10_000))
		now = s.sweep(now)
		s.step(i, now)
	}
	s.sweeps = 0
	s.book.AsOfMicros = s.stamp(now + 5000)
	s.sweep(now + 5000)
	for _, h := range s.holds {
		s.book.Rows = append(s.book.Rows, *h)
	}
	r.Shuffle(len(s.ops), func(i, j int) { s.ops[i], s.ops[j] = s.ops[j], s.ops[i] })
	return s
}

// stamp is a time by the store's clock.
func (s *reservationRun) stamp(now int64) int64 { return (now + s.clock) / s.tick * s.tick }

func (s *reservationRun) note(h *api.ReservationRow, to string, now int64) {
	h.Events = append(h.Events, api.ReservationEvent{Was: h.State, Now: to, DeadlineMicros: h.ExpiresMicros,
		AtMicros: s.stamp(now)})
	h.State = to
}

// move takes units from the stock for a buyer; fewer than none = gives them back.
func (s *reservationRun) move(h *api.ReservationRow, units int64) {
	s.book.Stock -= units
	s.book.BuyerUnits[h.Buyer] += units
}

func (s *reservationRun) overdue(h *api.ReservationRow, now int64) bool {
	return h.State == held && s.stamp(now) >= h.ExpiresMicros
}

func (s *reservationRun) end(h *api.ReservationRow, as string, now int64) {
	s.note(h, as, now)
	s.move(h, -h.Quantity)
}

// sweep ends what is overdue, if it is time for a sweep, and returns when it is done. One of four ends before it has
// stamped its work.
func (s *reservationRun) sweep(now int64) int64 {
	if now < s.sweeps {
		return now
	}
	s.sweeps = now + int64(s.r.IntN(60_000))
	done, stamped := now+int64(1+s.r.IntN(2000)), s.r.IntN(4) > 0
	for _, h := range s.holds {
		if s.overdue(h, now) {
			s.end(h, expired, now)
			if stamped {
				h.Events[len(h.Events)-1].CommittedMicros = s.stamp(done + int64(s.r.IntN(3000)))
			}
		}
	}
	return done
}

func (s *reservationRun) step(i int, now int64) {
	op := ReservationOp{Outcome: OK, Call: (now - int64(s.r.IntN(15_000))) * micro,
		Return: (now + 1 + int64(s.r.IntN(15_000))) * micro}
	if len(s.holds) == 0 || s.r.IntN(5) < 2 {
		s.reserve(&op, i, now)
		s.answer(op)
		return
	}
	h := s.holds[s.r.IntN(len(s.holds))]
	op.ReservationID, op.Buyer, op.Quantity = h.ReservationID, h.Buyer, h.Quantity
	if s.overdue(h, now) { // the same transaction
		s.end(h, expired, now)
	}
	switch s.r.IntN(12) {
	case 0, 1, 2:
		op.Kind = Cancel
		switch h.State {
		case held:
			if s.r.IntN(2) == 0 {
				s.end(h, cancelled, now)
				break
			}
			op.Key, op.Part = fmt.Sprint("c", i), 1
			if h.Quantity == 1 {
				s.end(h, cancelled, now)
			} else {
				h.Quantity = 1
				s.note(h, held, now)
				s.move(h, -1)
			}
			e := &h.Events[len(h.Events)-1]
			e.Quantity, e.Request = 1, ledger.Digest([]byte(op.Key))
		case confirmed:
			op.Outcome = Refused
		case cancelled:
			if s.r.IntN(2) == 0 {
				op.Key, op.Part = fmt.Sprint("c", i), 1
			}
		case expired:
			op.Expired, h.Late = true, ledger.LateRefund
		}
		s.answer(op)
	case 3, 4:
		if op.Kind = Extend; h.State != held {
			op.Outcome = Refused
		} else if h.ExtendedMicros == 0 {
			h.ExpiresMicros = max(h.ExpiresMicros, s.stamp(now+int64(s.r.IntN(90_000))))
			h.ExtendedMicros = s.stamp(now)
			s.note(h, held, now)
		}
		s.answer(op)
	case 5:
		if len(h.Orders) == 0 {
			return
		}
		o := &h.Orders[0]
		op.Kind, op.OrderID = Return, o.OrderID
		back, gone := o.Back()
		part := api.ReturnedPart{Quantity: o.Quantity - back - gone, Restocked: s.r.IntN(2) == 0}
		switch {
		case part.Quantity == 0:
			part = o.Returns[len(o.Returns)-1]
		case part.Quantity == 2 && s.r.IntN(2) == 0:
			op.Key, op.Part, part.Quantity = fmt.Sprint("r", i), 1, 1
			part.Request = ledger.Digest([]byte(op.Key))
			fallthrough
		default:
			o.Returns = append(o.Returns, part)
			s.book.BuyerUnits[h.Buyer] -= part.Quantity
			if part.Restocked {
				s.book.Stock += part.Quantity
			}
		}
		op.Restock = part.Restocked
		s.answer(op)
	case 6: // another item of the cart has a new run
		if h.State == held && s.r.IntN(3) == 0 {
			s.end(h, void, now)
		}
	default:
		s.confirm(&op, h, i, now)
		s.answer(op)
	}
}

// free reports whether a buyer may have so many units more; if not, limit says that it is for his limit.
func (s *reservationRun) free(buyer string, units int64) (ok, limit bool) {
	limit = s.book.PerBuyer > 0 && s.book.BuyerUnits[buyer]+units > s.book.PerBuyer
	return !limit && s.book.Stock >= units, limit
}

func (s *reservationRun) reserve(op *ReservationOp, i int, now int64) {
	op.Kind, op.Quantity, op.Buyer = Reserve, int64(1+s.r.IntN(2)), fmt.Sprint("b", s.r.IntN(2))
	if s.r.IntN(2) == 0 {
		op.Key = fmt.Sprint("key", i)
	}
	var ok bool
	if ok, op.Limit = s.free(op.Buyer, op.Quantity); !ok {
		op.Outcome = Refused
		return
	}
	h := &api.ReservationRow{ReservationID: fmt.Sprint("h", i), Key: op.Key, Buyer: op.Buyer, Late: s.late,
		ExpiresMicros: s.stamp(now + int64(10_000+s.r.IntN(80_000))), Quantity: op.Quantity}
	s.holds = append(s.holds, h)
	s.note(h, held, now)
	s.move(h, h.Quantity)
	op.ReservationID = h.ReservationID
}

func (s *reservationRun) confirm(op *ReservationOp, h *api.ReservationRow, i int, now int64) {
	op.Kind, op.PaymentID = Confirm, fmt.Sprint("p", i)
	ok := h.State == held
	if h.State == expired && h.Late == ledger.LateRehold {
		if ok, _ = s.free(h.Buyer, h.Quantity); ok {
			s.move(h, h.Quantity)
		}
	}
	if ok {
		s.note(h, confirmed, now)
		op.OrderID = fmt.Sprint("o", i)
		h.Orders = append(h.Orders, api.ReservationOrder{OrderID: op.OrderID, Payment: op.PaymentID, Buyer: h.Buyer,
			Quantity: h.Quantity})
	} else {
		op.Outcome, op.Refund, op.Expired = Refused, true, h.State == expired
	}
	h.Payments = append(h.Payments, api.ReservationPaid{Payment: op.PaymentID, OrderID: op.OrderID,
		Outcome: map[bool]string{true: "order", false: "refund"}[ok]})
}

// answer records what became of a request: nothing (it was somebody else's, but no cancel that a part may meet), an
// unknown outcome, or an answer; maybe with a try before it that did nothing, with a replay of what nobody heard, or
// with a double click.
func (s *reservationRun) answer(op ReservationOp) {
	lost, again := op, op
	lost.Outcome, lost.OrderID, lost.Refund, lost.Expired, lost.Limit = Unknown, "", false, false, false
	if op.Kind == Reserve {
		lost.ReservationID = ""
	}
	named := op.Key != "" || op.PaymentID != ""
	switch k := s.r.IntN(12); {
	case k == 0 && (op.Kind != Cancel || op.Quantity == 1):
	case k <= 1:
		s.ops = append(s.ops, lost)
	case k == 2 && named:
		lost.Call, lost.Return = op.Call-30e6, op.Call-1
		s.ops = append(s.ops, lost, op)
	case k == 3 && named:
		again.Call, again.Return, again.Replayed = op.Return+2e6, op.Return+int64(5+s.r.IntN(200))*1e6, true
		s.ops = append(s.ops, lost, again)
	case k == 4 && named:
		again.Call, again.Return, again.Replayed = op.Call-3e6, op.Return+int64(s.r.IntN(10))*1e6, true
		s.ops = append(s.ops, op, again)
	default:
		s.ops = append(s.ops, op)
	}
}

// A service that does everything right is never accused.
func TestHoldsNoFalseAlarm(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 20_000 {
		s := aReservationRun(r, 3+n%30, n%2 == 0)
		if got := Reservations(s.book, s.ops, "en"); got.Found != "" || len(got.Violations)+len(got.Unchecked) > 0 {
			t.Fatalf("run %d: %s %v %v\n%+v\n%+v", n, got.Found, got.Violations, got.Unchecked, s.book, s.ops)
		}
	}
}

// answered reports whether a client was answered for each reservation.
func (s *reservationRun) answered() bool {
	return !slices.ContainsFunc(s.holds, func(h *api.ReservationRow) bool {
		return !slices.ContainsFunc(s.ops, func(op ReservationOp) bool {
			return op.Kind == Reserve &&
				op.ReservationID == h.ReservationID
		})
	})
}

// endsMore makes a cancel of two units that of a part, which do changes with its event. Nobody else cancels them.
func (s *reservationRun) endsMore(do func(e *api.ReservationEvent, op *ReservationOp)) bool {
	for _, h := range s.book.Rows {
		if last := len(h.Events) - 1; h.State == cancelled && h.Quantity == 2 {
			s.ops = slices.DeleteFunc(s.ops, func(op ReservationOp) bool {
				return op.Kind == Cancel && op.ReservationID == h.ReservationID
			})
			op := ReservationOp{Kind: Cancel, Outcome: OK, ReservationID: h.ReservationID, Key: "k", Part: 1, Return: 9e9}
			do(&h.Events[last], &op)
			s.ops = append(s.ops, op)
			return true
		}
	}
	return false
}

// Each flaw is found wherever a run has room for it.
func TestHoldsMutants(t *testing.T) {
	t.Parallel()
	type harm = func(s *reservationRun) bool // false = this run has no room for it
	row := func(state string, do func(s *reservationRun, h *api.ReservationRow)) harm {
		return func(s *reservationRun) bool {
			i := slices.IndexFunc(s.book.Rows, func(h api.ReservationRow) bool { return h.State == state })
			if i >= 0 {
				do(s, &s.book.Rows[i])
			}
			return i >= 0
		}
	}
	event := func(to string, do func(e *api.ReservationEvent)) harm {
		return func(s *reservationRun) bool {
			for _, h := range s.book.Rows {
				i := slices.IndexFunc(h.Events, func(e api.ReservationEvent) bool { return e.Was == held && e.Now == to })
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
		return func(s *reservationRun) bool {
			for _, h := range s.book.Rows {
				last := len(h.Events) - 1
				if last > 0 && h.Events[1].DeadlineMicros > h.Events[0].DeadlineMicros && h.State == to &&
					h.Events[last].Quantity == 0 {
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
	acknowledged := func(kind ReservationKind, do func(op *ReservationOp)) harm {
		return func(s *reservationRun) bool {
			i := slices.IndexFunc(s.ops, func(o ReservationOp) bool { return o.Kind == kind && o.Outcome == OK })
			if i >= 0 {
				do(&s.ops[i])
			}
			return i >= 0
		}
	}
	cancel := func(s *reservationRun, h *api.ReservationRow) { // is answered
		s.ops = append(s.ops, ReservationOp{Kind: Cancel, Outcome: OK, ReservationID: h.ReservationID, Call: 9e9,
			Return: 9e9})
	}
	for name, m := range map[string]struct {
		letter, says string
		harm         harm
	}{
		"a unit is taken twice": {"O", "more than", func(s *reservationRun) bool { s.book.Stock++; return true }},
		"a unit is lost":        {"L", "less than", func(s *reservationRun) bool { s.book.Stock--; return true }},
		"expired early": {"A", "before the deadline", event(expired, func(e *api.ReservationEvent) {
			e.AtMicros = e.DeadlineMicros - 1
		})},
		"confirmed late": {"D", "after the deadline", event(confirmed, func(e *api.ReservationEvent) {
			e.AtMicros = e.DeadlineMicros
		})},
		"expired by the deadline before its extension": {"O", "overwritten by an expiry", extended(expired)},
		"extended late": {"L", "after the deadline", extended(held)},
		"two orders of one hold": {"O", "two orders", row(confirmed, func(_ *reservationRun, h *api.ReservationRow) {
			second := h.Orders[0]
			second.OrderID = "second"
			h.Orders = append(h.Orders, second)
		})},
		"an acknowledged order is gone": {"A", "not there", acknowledged(Confirm, func(op *ReservationOp) {
			op.OrderID = "another"
		})},
		"an acknowledged order never was": {"A", "not there", acknowledged(Confirm, func(op *ReservationOp) {
			op.OrderID, op.PaymentID = "", "nobody's"
		})},
		"an acknowledged hold is gone": {"A", "not there", acknowledged(Reserve, func(op *ReservationOp) {
			op.ReservationID = "another"
		})},
		"an acknowledged cancellation is gone":       {"A", "not executed", row(confirmed, cancel)},
		"an acknowledged cancellation was an expiry": {"A", "not executed", row(expired, cancel)},
		"an acknowledged extension never was": {"A", "not executed", func(s *reservationRun) bool {
			i := slices.IndexFunc(s.book.Rows, func(h api.ReservationRow) bool { return h.ExtendedMicros == 0 })
			if i >= 0 {
				s.ops = append(s.ops, ReservationOp{Kind: Extend, Outcome: OK, ReservationID: s.book.Rows[i].ReservationID,
					Call:   9e9,
					Return: 9e9})
			}
			return i >= 0
		}},
		"an acknowledged return never was": {"A", "not executed", acknowledged(Return, func(op *ReservationOp) {
			op.OrderID = "another"
		})},
		"a return is answered in two ways": {"A", "not executed", acknowledged(Return, func(op *ReservationOp) {
			op.Restock = !op.Restock
		})},
		"a part is cancelled twice": {"O", "cancelled twice", func(s *reservationRun) bool {
			for i, h := range s.book.Rows {
				for at, e := range h.Events {
					if e.Now == held && e.Quantity > 0 {
						s.book.Rows[i].Events = slices.Insert(slices.Clone(h.Events), at, e)
						return true
					}
				}
			}
			return false
		}},
		"a part is cancelled twice, by a row that is short of it": {"O", "more units than", func(s *reservationRun) bool {
			for i, h := range s.book.Rows {
				if givenBack(h) > 0 && slices.ContainsFunc(s.ops, func(op ReservationOp) bool {
					return op.Kind == Reserve && op.Outcome == OK && op.ReservationID == h.ReservationID
				}) {
					s.book.Rows[i].Quantity++
					return true
				}
			}
			return false
		}},
		"a part ends the whole reservation": {"A", "only a part", func(s *reservationRun) bool {
			return s.endsMore(func(e *api.ReservationEvent, op *ReservationOp) {
				e.Quantity, e.Request, op.Outcome = 1, ledger.Digest([]byte(op.Key)), Unknown
			})
		}},
		"a part ends the whole reservation, as if it was told to": {"A", "only a part", func(s *reservationRun) bool {
			return s.endsMore(func(*api.ReservationEvent, *ReservationOp) {})
		}},
		"more came back than was ordered": {"O", "more units than", row(confirmed, func(_ *reservationRun,
			h *api.ReservationRow) {
			h.Orders[0].Returns = append(h.Orders[0].Returns, api.ReturnedPart{Request: "x", Quantity: 9, Restocked: true})
		})},
		"an order is another buyer's": {"A", "of another buyer", row(confirmed, func(_ *reservationRun,
			h *api.ReservationRow) {
			h.Orders[0].Buyer = ""
		})},
		"each payment is called an order": {"D", "two ends", row(expired, func(_ *reservationRun, h *api.ReservationRow) {
			h.Payments = append(h.Payments, api.ReservationPaid{Payment: "refunded", Outcome: "order"})
		})},
		"a key holds twice": {"D", "two reservations", func(s *reservationRun) bool {
			for i := range s.book.Rows[:min(2, len(s.book.Rows))] {
				s.book.Rows[i].Key = "k"
			}
			return len(s.book.Rows) > 1
		}},
		"a key is answered two holds": {"D", "two reservations", func(s *reservationRun) bool {
			two := map[string]bool{}
			for i, op := range s.ops {
				if op.Kind == Reserve && op.Outcome == OK && len(two) < 2 {
					s.ops[i].Key, two[op.ReservationID] = "k", true
				}
			}
			return len(two) > 1
		}},
		"refunded and sold": {"D", "refund", acknowledged(Confirm, func(op *ReservationOp) {
			op.Outcome, op.Refund = Refused, true
		})},
		"an order without a payment": {"", "that is not there", row(confirmed, func(_ *reservationRun,
			h *api.ReservationRow) {
			h.Orders[0].Payment = "nobody's"
		})},
		"confirmed without an order": {"", "has no order", row(confirmed, func(_ *reservationRun, h *api.ReservationRow) {
			h.Orders = nil
		})},
		"an order of what is held": {"", "or an order that no confirmation", row(held, func(_ *reservationRun,
			h *api.ReservationRow) {
			h.Orders = []api.ReservationOrder{{OrderID: "x", Payment: "x", Quantity: 1}}
		})},
		"a payment of two reservations": {"D", "two ends", row(void, func(s *reservationRun, h *api.ReservationRow) {
			h.Payments = []api.ReservationPaid{{Payment: "x"}, {Payment: "x"}}
		})},
		"a payment that pays twice": {"D", "two ends", func(s *reservationRun) bool {
			var orders []*api.ReservationOrder
			for _, h := range s.book.Rows {
				for i := range h.Orders {
					orders = append(orders, &h.Orders[i])
				}
			}
			if len(orders) > 1 {
				*orders[0] = *orders[1]
			}
			return len(orders) > 1
		}},
		"refused though there was enough": {"U", "must have been enough", func(s *reservationRun) bool {
			s.ops = append(s.ops, ReservationOp{Kind: Reserve, Outcome: Refused, Quantity: 1, Call: 1, Return: 2, Buyer: "b9"})
			return s.answered()
		}},
		"limited though there was room": {"U", "must have had room", func(s *reservationRun) bool {
			s.ops = append(s.ops, ReservationOp{Kind: Reserve, Outcome: Refused, Limit: true, Quantity: 1, Call: 1, Return: 2,
				Buyer: "b0"})
			return s.book.PerBuyer > 0 && s.answered()
		}},
		"over the limit": {"B", "more than the limit", func(s *reservationRun) bool {
			s.book.PerBuyer = min(1, s.book.PerBuyer)
			return s.book.PerBuyer > 0 && slices.Max(append(slices.Collect(maps.Values(s.book.BuyerUnits)), 0)) > 1
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(3, 4))
			tried := 0
			for n := range 900 {
				s := aReservationRun(r, 25, n%2 == 0)
				if !m.harm(s) {
					continue
				}
				tried++
				got := Reservations(s.book, s.ops, "en")
				all := strings.Join(append(got.Violations, got.Consequences...), "; ")
				if !strings.Contains(got.Found, m.letter) || !strings.Contains(all, m.says) {
					t.Fatalf("run %d: found %q, %s; want %q and %q", n, got.Found, all, m.letter, m.says)
				}
			}
			if tried < 10 {
				t.Errorf("only %d of 900 runs had room for it", tried)
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
		s := aReservationRun(r, 10+n%20, false)
		j := newReservationJudge(s.book, s.ops, "en")
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
func expiring(ids ...string) (book *api.Reservations, ops []ReservationOp) {
	book = &api.Reservations{Initial: 1, Stock: 1, ProductID: 101, Run: 1, AsOfMicros: 12_000_000}
	for i, id := range ids {
		at := 10_000_100 + int64(i)
		book.Rows = append(book.Rows, api.ReservationRow{ReservationID: id, State: expired, ExpiresMicros: 10_100_000,
			Quantity: 1, Events: []api.ReservationEvent{
				{Now: held, DeadlineMicros: 10_100_000, AtMicros: at},
				{Was: held, Now: expired, DeadlineMicros: 10_100_000, AtMicros: 10_150_000, CommittedMicros: 10_151_000}}})
		ops = append(ops, ReservationOp{Kind: Reserve, Outcome: OK, ReservationID: id, Quantity: 1, Call: 0, Return: 200_000})
	}
	return book, ops
}

func TestHoldsExpiryInTime(t *testing.T) {
	t.Parallel()
	refused := func(call, end int64) ReservationOp {
		return ReservationOp{Kind: Reserve, Outcome: Refused, Quantity: 1, Call: call, Return: end}
	}
	one, ops := expiring("a")
	two, twice := expiring("a", "b")
	moved := slices.Clone(ops)
	moved[0].Call, moved[0].Return = 1e9, 2e9
	slow := slices.Concat(ops, moved, []ReservationOp{{Kind: Reserve, Outcome: Unknown, Call: 7300e9, Return: 7300e9}})
	old, _ := expiring("a") // two hours later, another reservation is gone
	old.AsOfMicros += 2 * 3600e6
	gone := append(slices.Clone(ops), ReservationOp{Kind: Reserve, Outcome: OK, ReservationID: "gone", Quantity: 1,
		Call: 1, Return: 2})
	unstamped, _ := expiring("a")
	unstamped.Rows[0].Events[1].CommittedMicros = 0
	coarse, fast := expiring("a") // a clock that ticks in milliseconds, and an answer within one
	coarse.Rows[0].Events[0].AtMicros, fast[0].Call, fast[0].Return = 10_000_000, 700_000, 800_000
	fast = append(fast, ReservationOp{Kind: Reserve, Outcome: OK, ReservationID: "b", Quantity: 1, Call: 1_100_000,
		Return: 1_300_000},
		ReservationOp{Kind: Cancel, Outcome: OK, ReservationID: "b", Call: 1_400_000, Return: 1_500_000})
	coarse.Initial, coarse.Stock = 2, 2
	coarse.Rows = append(coarse.Rows, api.ReservationRow{ReservationID: "b", State: cancelled, ExpiresMicros: 10_100_000,
		Quantity: 1, Events: []api.ReservationEvent{{Now: held, DeadlineMicros: 10_100_000, AtMicros: 10_001_000},
			{Was: held, Now: cancelled, AtMicros: 10_001_000}}})
	tight, _ := expiring("a") // likewise, and the sweep was late in its millisecond
	tight.Rows[0].Events[0].AtMicros = 10_000_000
	// the clock was set back before the second hold
	back := tell(1, "hold a 10 100, ends a expired 150, hold b 200 900")
	both := tell(1, "hold a 10 900, hold b 200 900, cancel a 300, cancel b 310")
	for _, h := range []*told{back, both} {
		h.row("b").Events[0].AtMicros -= 3_000_000
	}
	refunded := append(slices.Clone(ops), ReservationOp{Kind: Confirm, Outcome: Refused, ReservationID: "a",
		PaymentID: "p",
		Refund:    true, Call: 120e6, Return: 130e6})
	for name, tt := range map[string]struct {
		book  *api.Reservations
		ops   []ReservationOp
		found string
		skips bool
	}{
		"a clock of milliseconds": {coarse, fast, "", false},
		"refused in the tick of the sweep": {tight, []ReservationOp{fast[0], refused(151_850_000, 151_870_000)}, "",
			false},
		"expired before a clock was set":      {back.book, back.ops, "", true},
		"held twice though a clock was set":   {both.book, both.ops, "O", true},
		"a payment removed after an hour":     {old, refunded, "", false},
		"a payment lost within the hour":      {one, refunded, "A", false},
		"refused before the sweep":            {one, append(slices.Clone(ops), refused(120e6, 150e6)), "", false},
		"refused while the sweep may run":     {one, append(slices.Clone(ops), refused(151_050_000, 160e6)), "", false},
		"refused after the sweep":             {one, append(slices.Clone(ops), refused(152e6, 160e6)), "U", false},
		"refused after a sweep without stamp": {unstamped, append(slices.Clone(ops), refused(152e6, 160e6)), "", false},
		"held twice, expired since":           {two, twice, "O", false},
		"removed after an hour":               {old, gone, "", true},
		"removed after an hour, a clock set":  {one, append(slices.Clone(slow), gone[1]), "", true},
		"refused over an hour ago":            {old, append(slices.Clone(ops), refused(-10, -5)), "", false},
		"lost within the hour":                {one, gone, "A", false},
		"a lost release excuses":              {one, append(slices.Clone(gone), refused(152e6, 160e6)), "A", false},
		"a clock was set":                     {one, slices.Concat(ops, moved, []ReservationOp{refused(9e9, 9e9)}), "", true},
	} {
		got := Reservations(tt.book, tt.ops, "en")
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
	run := ReservationRun{Replicas: 2, Stock: &stock, WantSoldOut: true, Stopped: true, Expiry: true}
	got := run.Judge(book, ops, "en")
	if got.Verdict != Vacuous || len(got.Missing) != 4 || len(got.Unchecked) != 1 {
		t.Errorf("verdict %s, missing %q, unchecked %q, want VACUOUS for 4 reasons, too few races", got.Verdict, got.Missing,
			got.Unchecked)
	}
	stock = 2
	short, backwards := *book, slices.Clone(ops)
	short.Stock, backwards[0].Return = 0, -1
	for name, got := range map[string]ReservationReport{
		"with another stock":    run.Judge(&short, ops, "en"),
		"without a history":     ReservationRun{}.Judge(book, nil, "en"),
		"with another's rows":   ReservationRun{Mode: "m"}.Judge(book, ops, "en"),
		"answered before asked": Reservations(book, backwards, "en"),
	} {
		if got.Verdict != Inconclusive {
			t.Errorf("%s: %s, want INCONCLUSIVE", name, got.Verdict)
		}
	}
}

// The rules for refusals and for too much agree with an exhaustive search: they accuse only where no order of events
// explains the answers. Some adjustments of the stock have no answer.
func TestHoldRefusalsAreSound(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	accused, missed, over := 0, 0, 0
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
		var shifts []shift
		for range r.IntN(3) {
			s := shift{units: []int64{-2, -1, 1, 2}[r.IntN(4)], call: int64(r.IntN(10)), answer: never}
			if r.IntN(3) > 0 {
				s.answer = s.call + int64(r.IntN(6))
			}
			shifts = append(shifts, s)
		}
		q, call := int64(1+r.IntN(2)), int64(r.IntN(12))
		end := call + int64(r.IntN(6))
		if !explained(initial, takes, shifts, nil) {
			if peak(takes, shifts) > initial {
				over++
			}
			continue // the takes alone are impossible
		}
		bad := shelfOf(takes, initial, shifts...).fewest(call, end) >= q
		possible := explained(initial, takes, shifts, &taken{units: q, call: call, answer: end})
		switch {
		case peak(takes, shifts) > initial:
			t.Fatalf("%d, %+v, %+v: too much is found, and has an explanation", initial, takes, shifts)
		case bad && possible:
			t.Fatalf("%d, %+v, %+v: a refusal of %d in [%d, %d] is accused, and has an explanation", initial, takes, shifts, q,
				call, end)
		case bad:
			accused++
		case !possible:
			missed++
		}
	}
	if accused < 500 || over < 500 {
		t.Errorf("accused %d (and missed %d), too much %d: the samples have no room for it", accused, missed, over)
	}
}

// explained tries every order of takes, releases and the refusal.
func explained(initial int64, takes []taken, shifts []shift, refusal *taken) bool {
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
	for _, s := range shifts {
		all = append(all, event{s.call, s.answer, s.units, -1, false})
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
