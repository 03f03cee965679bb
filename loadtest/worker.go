package loadtest

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
)

// Pauses before a repetition: as Retry-After says, but at most longestPause, because a longer pause would dominate the
// measurement; without the header shortestPause, doubled each time.
const (
	shortestPause = 20 * time.Millisecond
	longestPause  = time.Second
)

// script makes the requests for a product and classifies the answers: the part that differs for a service that is not
// ours.
type script struct {
	fill     func(c *client.Call, product int64, key, buyer string)
	classify func(*client.Answer) client.Reading
	keyed    bool        // each request has a new key, its repetitions the same one
	mode     string      // of a plan that reserves
	carts    bool        // it takes carts
	operator [][2]string // headers of a return
}

// worker is one client: it sends one request at a time.
type worker struct {
	id     int
	plan   Plan
	script script
	engine client.Engine
	second client.Engine // for double clicks; nil = the plan has none
	call   client.Call
}

// arrive executes one arrival, as [worker.order] does, or as v says if the plan reserves.
func (w *worker) arrive(ctx context.Context, rec *recorder, product, intended int64, v visit) {
	key := ""
	switch {
	case w.plan.Holding.On():
		w.buy(ctx, rec, product, intended, v)
		return
	case w.script.keyed:
		key = uuid.NewString()
	}
	if v.twice && w.second != nil {
		other := &worker{id: w.id, plan: w.plan, script: w.script, engine: w.second}
		defer w.beside(func() { other.order(ctx, rec, product, intended, key, v.buyer) })()
	}
	w.order(ctx, rec, product, intended, key, v.buyer)
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

// order executes one arrival: a request, and its repetitions if the plan has any. intended is when it was due, in
// nanoseconds on rec's clock; -1 = whenever it is sent. The response time of a repetition counts from there too: its
// buyer has waited since. If rec is nil, the arrival is not counted.
func (w *worker) order(ctx context.Context, rec *recorder, product, intended int64, key, buyer string) {
	w.call = client.Call{}
	w.script.fill(&w.call, product, key, buyer)
	for try := 0; ; try++ {
		a, read := w.send(rec, sample{
			op:       judge.Op{Client: w.id, ProductID: product, Quantity: w.plan.Quantity, Key: key, Buyer: buyer},
			intended: intended,
			retry:    try > 0,
			lags:     intended >= 0 && try == 0,
		})
		if !read.Again || try >= w.plan.Retry || !w.engine.Rest(ctx, pauseAfter(try, a.RetryAfter)) {
			return
		}
	}
}

// send sends the call once and records the outcome.
func (w *worker) send(rec *recorder, s sample) (client.Answer, client.Reading) {
	if rec == nil {
		a := w.engine.Do(&w.call)
		read := w.script.classify(&a)
		return a, read
	}
	// The interval includes connecting, if needed. So it may be longer than the service's interval but never shorter, and
	// two intervals that do not overlap prove an order.
	s.op.Call = rec.now()
	a := w.engine.Do(&w.call)
	s.op.Return = rec.now()
	if s.intended < 0 {
		s.intended = s.op.Call
	}
	s.read = w.script.classify(&a)
	s.op.Outcome = s.read.Outcome
	if s.read.Code != client.CodeOK {
		s.op.Code = api.Code(s.read.Code)
	}
	s.op.OrderID, s.op.Replica, s.op.Replayed = a.OrderID, a.Replica, a.Replayed
	rec.add(s, a.Remaining, a.HasRemaining)
	return a, s.read
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

// picker returns a function that chooses the products of one source of requests, numbered by stream: the same plan
// makes the same choices. With a skew, the first product is chosen most often.
func picker(p Plan, stream int) func() int64 {
	if p.Products <= 1 {
		return func() int64 { return p.Product }
	}
	random := rand.New(rand.NewPCG(p.Seed, uint64(stream)))
	if p.Zipf > 1 {
		zipf := rand.NewZipf(random, p.Zipf, 1, uint64(p.Products-1))
		return func() int64 { return p.Product + int64(zipf.Uint64()) }
	}
	return func() int64 { return p.Product + random.Int64N(int64(p.Products)) }
}
