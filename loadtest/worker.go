package loadtest

import (
	"context"
	"sync/atomic"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/loadtest/plan"
	"lastitem/target"
)

// Pauses before a repetition: as Retry-After says, but at most longestPause, because a longer pause would dominate the
// measurement; without the header shortestPause, doubled each time.
const (
	shortestPause = 20 * time.Millisecond
	longestPause  = time.Second
)

// script makes the requests and reads the replies: the part that differs for a service that is not ours.
type script struct {
	call func(a target.Ask) target.Call
	// visit gives an arrival its buyer, of somebody's service whose purchase takes several steps, and what he wants; false
	// = nobody is left. nil = a purchase is one call.
	visit func(a target.Ask) (target.Ask, bool)
	// endings tells what is sent about the next order of that service, all of it at once, see [endingsOf]; nil = nothing.
	endings func() []judge.ReservationKind
	base    string // the address of that service
	read    func(kind judge.ReservationKind, r target.Reply) target.Answer
	keyed   bool                                                // each request has a new key, its repetitions the same one
	mode    string                                              // of lastitem
	store   api.Store                                           // whose count it sells
	carts   bool                                                // it takes carts
	note    func(kind client.Kind, code string, r target.Reply) // is told of every answer; nil = is not
}

// worker is one client: it sends one request at a time.
type worker struct {
	id     int
	plan   plan.Plan
	script script
	engine client.Engine
	second client.Engine                      // for double clicks; nil = the plan has none
	won    func(id string, product, at int64) // is told of each ticket; nil = nobody follows them
}

// beside begins something on the second connection; await returns when it is over.
func (w *worker) beside(do func()) (await func()) {
	var done atomic.Bool
	w.second.Go(func() {
		do()
		done.Store(true)
	})
	return func() {
		for !done.Load() { // each call is bounded by the plan's timeout
			w.engine.Rest(context.Background(), time.Millisecond)
		}
	}
}

// insist sends a request until its outcome is known, at most so many times. The response time of a repetition counts
// from intended too: its buyer has waited since.
func (w *worker) insist(ctx context.Context, rec *recorder, ask target.Ask, intended int64, twice bool,
	tries int) target.Answer {
	for try := 0; ; try++ {
		var said target.Answer
		if twice && try == 0 && w.second != nil {
			said = w.click(rec, ask, intended)
		} else {
			said = w.send(w.engine, rec, ask, sample{intended: intended, retry: try > 0})
		}
		if !said.Again || try+1 >= tries || !w.engine.Rest(ctx, pauseAfter(try, said.RetryAfter)) {
			return said
		}
	}
}

// click sends a request over two connections at once. Of two answers the good one counts.
func (w *worker) click(rec *recorder, ask target.Ask, intended int64) target.Answer {
	var other target.Answer
	await := w.beside(func() { other = w.send(w.second, rec, ask, sample{intended: intended, retry: true, second: true}) })
	said := w.send(w.engine, rec, ask, sample{intended: intended})
	await()
	if said.Outcome != judge.OK && other.Outcome == judge.OK {
		return other
	}
	return said
}

// send sends a request once and records the outcome in s, unless rec is nil.
func (w *worker) send(engine client.Engine, rec *recorder, ask target.Ask, s sample) target.Answer {
	if rec == nil {
		answer := engine.Do(w.script.call(ask))
		said, _ := client.Classify(&answer, ask.Kind, w.script.read)
		return said
	}
	// The interval includes connecting, if needed. So it may be longer than the service's interval but never shorter, and
	// two intervals that do not overlap prove an order.
	read, call := w.script.read, target.Call{}
	if ask.Visit == nil {
		call = w.script.call(ask)
	}
	called := rec.now()
	var answer client.Answer
	if ask.Visit == nil {
		answer = engine.Do(call)
	} else {
		answer, read = client.Visit(engine, w.script.base, ask.Visit, ask.Kind)
	}
	returned := rec.now()
	said, kind := client.Classify(&answer, ask.Kind, read)
	s.op, s.kind, s.code, s.again = ask.Op(said), kind, string(said.Code), said.Again
	s.op.Client, s.op.Call, s.op.Return = w.id, called, returned
	if s.lags = s.intended >= 0 && !s.retry; s.intended < 0 {
		s.intended = called
	}
	if said.Outcome == judge.OK {
		s.code = client.CodeOK
	}
	if w.won != nil && said.TicketID != "" && kind == client.Accepted {
		w.won(said.TicketID, ask.Product, returned)
	}
	if w.script.note != nil && ask.Kind == "" {
		w.script.note(kind, s.code, answer.Reply)
	}
	if ask.Kind != "" {
		s.step(ask, said)
	}
	rec.add(s)
	return said
}

// pauseAfter is how long to wait before repetition try+1.
func pauseAfter(try int, asked time.Duration) time.Duration {
	if asked <= 0 {
		asked = shortestPause << min(try, 10)
	}
	return min(asked, longestPause)
}

// rest waits for d; false means that ctx ended first.
func rest(ctx context.Context, d time.Duration) bool { return client.Rest(ctx, d) }

// goodCodes are the codes of good answers that are no sale.
var goodCodes = map[judge.ReservationKind]string{judge.Reserve: target.StateHeld, judge.Cancel: client.CodeCancelled,
	judge.Extend: client.CodeExtended, judge.Return: client.CodeReturned, judge.Adjust: client.CodeAdjusted,
	judge.Ship: client.CodeShipped}

// step makes the sample one of a request about a reservation. Only a confirm is a sale, and a second click counts as a
// request, but never as another sale.
func (s *sample) step(ask target.Ask, said target.Answer) {
	op := ask.ReservationOp(said)
	op.Call, op.Return = s.op.Call, s.op.Return
	s.hold, s.cart, s.about = &op, ask.Second, said.ProductID
	if ask.Kind == judge.Adjust || ask.Visit != nil { // neither a sale nor the refusal of one
		s.kind = ""
	}
	if ask.Kind == judge.Adjust && said.Outcome == judge.Refused {
		s.code = client.CodeNotAdjusted
	}
	if said.Outcome != judge.OK {
		return
	}
	if ask.Kind != judge.Confirm || s.second {
		s.kind = ""
	}
	if code, step := goodCodes[ask.Kind]; step {
		s.code = code
	}
	if ask.Kind == judge.Cancel && op.Expired {
		s.code = target.StateExpired
	}
}
