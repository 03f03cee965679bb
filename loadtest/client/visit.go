package client

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"lastitem/judge"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
	"lastitem/target"
)

// Visit has a buyer take the steps that are left, or by a kind end his order, over a worker's engine, at the service
// with this address, and returns the answer that decides and what reads it.
func Visit(engine Engine, base string, v *target.Visit, kind judge.ReservationKind) (Answer,
	func(judge.ReservationKind, target.Reply) target.Answer) {
	last := Answer{Sent: true}
	do := func(c target.Call) (target.Reply, error) {
		if last = engine.Do(c); last.Err != "" {
			return target.Reply{}, errors.New(last.Err)
		}
		last.Body = bytes.Clone(last.Body) // the engine's own is valid until the next call
		return last.Reply, nil
	}
	// A run that is stopped waits for its requests all the same, at most for as long as Then may ask.
	via := target.Via{Base: base, Do: do}
	var reply target.Reply
	var said target.Answer
	var err error
	if kind == "" {
		reply, said, err = v.Buy(context.Background(), via, true)
	} else {
		reply, said, err = v.End(via, kind)
		if said.Outcome == judge.OK && reply.Status == http.StatusAccepted { // it may still come
			said.Outcome, said.Code = judge.Unknown, "http_202"
		}
	}
	if err != nil && last.Err == "" {
		last.Err = ErrBadAnswer // such as a path that cannot be one
	}
	if err == nil {
		last.Err, last.Reply = "", reply
	}
	if said.Outcome == judge.Refused && kind == "" {
		said.Code = CodeRefused
	}
	return last, func(judge.ReservationKind, target.Reply) target.Answer { return said }
}

// mostArranging is how many buyers are arranged at the same time.
const mostArranging = 8

// Buyers returns what gives each arrival its buyer. Where a buyer must be arranged, all of the plan are, before it
// returns: an arrival then gets the next of them, whatever it was to ask for. An error: a buyer could not be arranged.
func Buyers(ctx context.Context, f *target.Remote, p plan.Plan) (func(target.Ask) (target.Ask, bool), error) {
	if f.Arrange == nil {
		return func(a target.Ask) (target.Ask, bool) {
			a.Visit = f.NewVisit(a.Product, a.Quantity, a.Key)
			return a, true
		}, nil
	}
	all := make([]target.Ask, Arrivals(p))
	pick := p.Picker(0)
	for i := range all {
		all[i] = target.Ask{Product: pick(), Quantity: p.Quantity}
		if f.HasKey() {
			all[i].Key = uuid.NewString()
		}
		all[i].Visit = f.NewVisit(all[i].Product, all[i].Quantity, all[i].Key)
	}
	transport := target.NewTransport(f.Insecure)
	transport.MaxIdleConnsPerHost = mostArranging
	defer transport.CloseIdleConnections()
	once := &http.Client{Transport: transport, Timeout: p.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	via := target.Via{Base: f.URL, Do: func(c target.Call) (target.Reply, error) { return c.Send(ctx, once, f.URL) }}
	var next atomic.Int64
	var done sync.WaitGroup
	for range mostArranging {
		done.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := all[i].Visit.Arrange(via); err != nil {
					stop(err)
				}
			}
		})
	}
	done.Wait()
	if err := context.Cause(ctx); errors.Is(err, context.Canceled) {
		return nil, plan.Fault(text.Of("interrupted before the load: %w"), err)
	} else if err != nil {
		return nil, plan.Fault(text.Of("a buyer could not be arranged: %w"), err)
	}
	var taken atomic.Int64
	return func(target.Ask) (target.Ask, bool) {
		i := taken.Add(1) - 1
		if i >= int64(len(all)) {
			return target.Ask{}, false
		}
		return all[i], true
	}, nil
}

// Arrivals is how many arrivals a plan has; 0 = its duration decides.
func Arrivals(p plan.Plan) int {
	switch {
	case p.Open():
		return plan.NewSchedule(p).Len()
	case p.Loops > 0:
		return p.Loops * p.VUs
	}
	return p.Requests
}
