package loadtest

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/loadtest/follow"
)

// shards is the number of parts that the workers' records are spread over. Histograms are too large for each of a
// thousand workers to have one; with eight parts the locks are almost free, and cost less than the memory.
const shards = 8

// sample is one request, as the worker that sent it saw it.
type sample struct {
	op    judge.Op
	kind  client.Kind // "" = no sale yet, or none of its own
	code  string      // among [Result.Codes]
	again bool        // a repetition might be answered otherwise
	// intended is when the request was due, in nanoseconds since the start; in a closed loop that is op.Call.
	intended int64
	retry    bool
	lags     bool                 // its lag counts
	second   bool                 // a second click
	hold     *judge.ReservationOp // of a request about a reservation: kept instead of op
	cart     int64                // the other product that the request is about; 0 = none
	about    int64                // the product that has refused it; 0 = not known
}

// recorder collects the samples of one run.
type recorder struct {
	start   time.Time
	history bool // keep every op
	parts   [shards]shard
	series  series
}

// shard is the part of a recorder that every eighth worker writes to.
type shard struct {
	mu       sync.Mutex
	response [3]*histogram // by the index of Kinds; made when first needed
	service  [3]*histogram
	lag      *histogram
	window   interval

	history         []judge.Op
	doubled         int
	holds           map[int64][]judge.ReservationOp      // by product
	steps           map[judge.ReservationKind]*histogram // response times of good answers
	codes, served   map[string]int
	sent, retried   int
	kinds           [3]int64
	final           int64 // refusals that no repetition would change, such as sold_out
	undone          int64 // cancels of orders
	first, last     int64 // first call, last return
	lastAccepted    int64
	firstIsRecorded bool
	_               [64]byte // keeps two shards off one cache line
}

// newRecorder returns an empty recorder; begin sets its clock.
func newRecorder(history bool) *recorder {
	r := &recorder{history: history}
	for i := range r.parts {
		r.parts[i].codes = map[string]int{}
		r.parts[i].served = map[string]int{}
		r.parts[i].window.at = -1
	}
	return r
}

// begin starts the clock that all times of the run count from.
func (r *recorder) begin() { r.start = time.Now() }

// now is the time since the start in nanoseconds, by the monotonic clock.
func (r *recorder) now() int64 { return int64(time.Since(r.start)) }

// add records one sample.
func (r *recorder) add(s sample) {
	p := &r.parts[s.op.Client%shards]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(&s)
	p.step(&s)
	if s.kind == "" { // a reservation is no sale yet
		return
	}
	k := kindIndex(s.kind)
	p.kinds[k]++
	record(&p.response[k], s.op.Return-s.intended)
	record(&p.service[k], s.op.Return-s.op.Call)
	if s.lags {
		record(&p.lag, s.op.Call-s.intended)
	}
	r.series.add(&p.window, s.op.Return, k, s.op.Return-s.intended)
	if !r.history || s.hold != nil { // the histograms suffice, or step has kept it
		return
	}
	p.history = append(p.history, s.op)
}

// count adds the sample to the plain counters.
func (p *shard) count(s *sample) {
	p.sent++
	if s.kind == client.Refused && !s.again {
		p.final++
	}
	p.codes[s.code]++
	if s.op.Replica != "" {
		p.served[s.op.Replica]++
	}
	if s.retry {
		p.retried++
	}
	if !p.firstIsRecorded || s.op.Call < p.first {
		p.first, p.firstIsRecorded = s.op.Call, true
	}
	p.last = max(p.last, s.op.Return)
	if s.kind == client.Accepted {
		p.lastAccepted = max(p.lastAccepted, s.op.Return)
	}
}

// step keeps a request about a reservation.
func (p *shard) step(s *sample) {
	if s.hold == nil {
		return
	}
	if p.holds == nil {
		p.holds, p.steps = map[int64][]judge.ReservationOp{}, map[judge.ReservationKind]*histogram{}
	}
	for _, product := range []int64{s.op.ProductID, s.cart} {
		op := *s.hold
		if op.Outcome == judge.Refused && s.about != 0 && s.about != product {
			op.Outcome, op.Limit = judge.Declined, false // the other product of the cart was short
		}
		if product != 0 {
			p.holds[product] = append(p.holds[product], op)
		}
	}
	if s.second {
		p.doubled++
	}
	if s.hold.Outcome == judge.OK {
		h := p.steps[s.hold.Kind]
		record(&h, s.op.Return-s.intended)
		p.steps[s.hold.Kind] = h
		if s.hold.Kind == judge.Cancel && s.hold.OrderID != "" {
			p.undone++
		}
	}
}

// record adds a value to a histogram, which it makes when first needed.
func record(h **histogram, ns int64) {
	if *h == nil {
		*h = newHistogram(runDigits)
	}
	(*h).record(ns)
}

// kindIndex returns the index of a kind in Kinds.
func kindIndex(k client.Kind) int {
	switch k {
	case client.Accepted:
		return 0
	case client.Refused:
		return 1
	default:
		return 2
	}
}

// counts returns how many samples of each kind there are so far.
func (r *recorder) counts() (kinds [3]int64) {
	for i := range r.parts {
		p := &r.parts[i]
		p.mu.Lock()
		for k, n := range p.kinds {
			kinds[k] += n
		}
		p.mu.Unlock()
	}
	return kinds
}

// sales returns how many requests were accepted, less the cancels of their orders, and how many were refused for good
// so far, and the time of the last acceptance.
func (r *recorder) sales() (accepted, final, last int64) {
	for i := range r.parts {
		p := &r.parts[i]
		p.mu.Lock()
		accepted += p.kinds[kindIndex(client.Accepted)] - p.undone
		final, last = final+p.final, max(last, p.lastAccepted)
		p.mu.Unlock()
	}
	return accepted, final, last
}

// fill writes the records into the result. All workers must have ended.
func (r *recorder) fill(res *Result) {
	res.Codes, res.Served = map[string]int{}, map[string]int{}
	// Times are nanoseconds since the start; first is -1 until there is one, since a call may come at 0.
	first, last, accepted, acceptedAt := int64(-1), int64(0), int64(0), int64(0)
	for i := range r.parts {
		p := &r.parts[i]
		r.series.flush(&p.window) // the last window of each shard is not merged yet
		res.Sent += p.sent
		res.Retried += p.retried
		for code, n := range p.codes {
			res.Codes[code] += n
		}
		for replica, n := range p.served {
			res.Served[replica] += n
		}
		if p.firstIsRecorded && (first < 0 || p.first < first) {
			first = p.first
		}
		last = max(last, p.last)
		accepted += p.kinds[kindIndex(client.Accepted)]
		acceptedAt = max(acceptedAt, p.lastAccepted)
	}
	res.Series = r.series.list()
	r.fillLatencies(res)
	res.History, res.Adjusts = r.ops(), r.adjusts()
	if first < 0 {
		return
	}
	res.Elapsed = time.Duration(last - first)
	if accepted > 0 {
		res.ToLastAccepted = time.Duration(acceptedAt - first)
	}
	res.AcceptedPerSecond = perSecond(accepted, res.ToLastAccepted)
	res.RequestsPerSecond = perSecond(int64(res.Sent), res.Elapsed)
}

// fillLatencies merges the histograms of all workers and only then takes their percentiles: an average of percentiles
// has no meaning. Kinds that did not occur are left out.
func (r *recorder) fillLatencies(res *Result) {
	res.Latency, res.Service = map[client.Kind]Latency{}, map[client.Kind]Latency{}
	for k, kind := range client.Kinds {
		response, service := newHistogram(runDigits), newHistogram(runDigits)
		for i := range r.parts {
			response.merge(r.parts[i].response[k])
			service.merge(r.parts[i].service[k])
		}
		if response.hdr.TotalCount() > 0 {
			res.Latency[kind], res.Service[kind] = response.latency(), service.latency()
			if kind == client.Accepted {
				res.Curve = response.curve()
			}
		}
	}
	lag := newHistogram(runDigits)
	for i := range r.parts {
		lag.merge(r.parts[i].lag)
	}
	res.Lag = lag.latency()
}

// adjusts returns the requests that adjusted the stock, by product.
func (r *recorder) adjusts() map[int64][]judge.Op {
	all := map[int64][]judge.Op{}
	for i := range r.parts {
		for product, ops := range r.parts[i].holds {
			for _, op := range ops {
				if op.Kind == judge.Adjust {
					all[product] = append(all[product], judge.Op{ProductID: product, Call: op.Call, Return: op.Return,
						Outcome: op.Outcome, Quantity: op.Quantity, Key: op.Key})
				}
			}
		}
	}
	return all
}

// ops returns the history in the order of the calls; nil if none was kept.
func (r *recorder) ops() []judge.Op {
	if !r.history {
		return nil
	}
	all := []judge.Op{} // not nil: an empty history is not a missing one
	for i := range r.parts {
		all = append(all, r.parts[i].history...)
	}
	slices.SortFunc(all, func(a, b judge.Op) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Client, b.Client))
	})
	return all
}

// ticketFigures completes what was told of the tickets of a run that is over.
func ticketFigures(told follow.Figures, res *Result) *TicketFigures {
	t := &TicketFigures{Figures: told}
	first, answered := int64(0), int64(0)
	for _, op := range res.History { // in the order of the calls
		first, answered = res.History[0].Call, max(answered, op.Return)
	}
	ages := newHistogram(runDigits)
	for _, age := range told.Ages {
		ages.record(age)
	}
	t.CompletedPerSecond = perSecond(int64(len(told.Ages)), time.Duration(told.Last-first))
	t.Age, t.Drained = ages.latency(), time.Duration(max(0, told.Last-answered))
	return t
}
