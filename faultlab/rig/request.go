package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/stack/wire"
	"lastitem/target"
)

// NewKey returns an idempotency key that no other request of the scene has.
func (s *Scene) NewKey() string {
	s.keys++
	return fmt.Sprintf("lab-%d-%d-%d", s.Lane.Number, s.began.UnixNano(), s.keys)
}

// Ask sends an actor a request that fails at once if a lock is held.
func (s *Scene) Ask(a *Actor, key string) *Pending { return s.AskWithin(a, key, 0) }

// AskWithin sends an actor a request that waits for a lock, for at most the given time.
func (s *Scene) AskWithin(a *Actor, key string, wait time.Duration) *Pending {
	return s.askAt(a.URL, a, key, wait)
}

// askAt is AskWithin with a URL that leads to the actor.
func (s *Scene) askAt(to string, a *Actor, key string, wait time.Duration) *Pending {
	ask := s.ask
	ask.Key, ask.Wait = key, wait
	ask.Key, ask.Visit = s.buyers.take(to, key, s.NewKey)
	return s.begin(to, a, ask)
}

// AskEdge sends the lane's nginx a request that waits for a lock.
func (s *Scene) AskEdge(ctx context.Context, key string, wait time.Duration) (*Pending, error) {
	edge, err := s.Lane.Edge.URL(ctx, s.Lane.A.URL, s.Lane.B.URL)
	if err != nil {
		return nil, err
	}
	return s.askAt(edge, s.Lane.A, key, wait), nil
}

// asks names what a client does, in a story.
var asks = map[judge.ReservationKind]What{"": Asked, judge.Reserve: Reserves, judge.Confirm: Pays,
	judge.Ship: Ships, judge.Cancel: Cancels, judge.Extend: Extends, judge.Return: Returns, judge.Adjust: Adjusts}

// begin sends a request.
func (s *Scene) begin(to string, a *Actor, ask Ask) *Pending {
	if ask.PerBuyer > 0 {
		ask.Buyer = "ann"
		if a == s.Lane.C {
			ask.Buyer = ask.Key // the next customer, each time
		}
	}
	p := &Pending{done: make(chan struct{}), ask: ask, since: wire.LastID()}
	s.mu.Lock()
	p.said(ask, target.Answer{Outcome: judge.Unknown}, len(s.ops), int64(s.now()))
	switch {
	case ask.Kind == judge.Adjust:
		s.adjusts = append(s.adjusts, p)
	case ask.Kind != "" && ask.Visit != nil:
		s.endings = append(s.endings, p)
	default:
		s.ops = append(s.ops, p)
	}
	s.mu.Unlock()
	s.Note(a, asks[ask.Kind], "")
	go func() {
		said, shown, promised, busy := s.send(to, ask)
		s.mu.Lock()
		p.promised, p.shown, p.busy = promised, shown, busy
		p.said(ask, said, p.op.Client, p.op.Call)
		p.op.Return = int64(s.now())
		p.hold.Return = p.op.Return
		answered := strings.TrimSpace(string(p.op.Outcome) + " " + string(p.op.Code) + shown)
		s.mu.Unlock()
		s.Note(a, Answered, answered)
		close(p.done)
	}()
	return p
}

// send sends a request and returns what came of it, and of a service that is not ours how a story shows it: as it came.
// busy: it was refused by another answer than the one at a stock of zero, without naming an order, and counts as
// declined.
func (s *Scene) send(to string, ask Ask) (said target.Answer, shown string, promised, busy bool) {
	r, said, err := exchange(s.Lane, to, ask)
	if err != nil {
		return target.Answer{Outcome: judge.Unknown}, "", false, false
	}
	if s.Lane.Service.Waits {
		shown, promised = " ("+target.Shown(r)+")", s.Lane.Service.Promised(r)
	}
	if ask.Kind != "" {
		return said, shown, r.Status == http.StatusAccepted, false
	}
	if busy = said.Outcome == judge.Refused && said.OrderID == "" && s.Lane.Service.learnt.unlike(r); busy {
		said.Outcome, said.Code = judge.Declined, api.LockBusy
	}
	return said, shown, promised, busy
}

// exchange sends a request or, of a purchase of several steps, those that are left. An outcome that is only promised is
// not waited for: the books show it.
func exchange(l *Lane, to string, ask Ask) (target.Reply, target.Answer, error) {
	if ask.Visit != nil && ask.Kind != "" {
		return ask.Visit.End(via(context.Background(), l.client, to), ask.Kind)
	}
	if ask.Visit != nil {
		return ask.Visit.Buy(context.Background(), via(context.Background(), l.client, to), false)
	}
	call := l.Service.Call
	if ask.Kind != "" { // only lastitem is asked this, and it may want the token
		call = l.site().shop().Call
	}
	r, err := call(ask.Ask).Send(context.Background(), l.client, to)
	if err != nil {
		return r, target.Answer{}, err
	}
	return r, l.Service.Read(ask.Kind, r), nil
}

// AskUntilServed asks an actor again and again while a lock is held, for at most that long, and then often enough for
// the judge to call the product stuck. If a request is blocked in a server, it is left in flight and returned.
func (s *Scene) AskUntilServed(ctx context.Context, a *Actor, within time.Duration) (*Pending, error) {
	end, orders := time.Now().Add(within), s.Lane.orders(ctx)
	return s.askAgain(ctx, a, within, func(p *Pending) bool { return s.served(ctx, a, p, orders, end) })
}

// AskAlone is AskUntilServed if no other request is in flight: it waits for every answer, however slow the machine is.
func (s *Scene) AskAlone(ctx context.Context, a *Actor, within time.Duration) error {
	_, err := s.askAgain(ctx, a, within, func(p *Pending) bool { return p.Wait(ctx) != nil })
	return err
}

func (s *Scene) askAgain(ctx context.Context, a *Actor, within time.Duration, blocked func(*Pending) bool) (*Pending,
	error) {
	end, after, restarts := time.Now().Add(within), 0, 0
	for {
		p := s.Ask(a, s.NewKey())
		if blocked(p) { // by a transaction of the victim
			return p, s.unserved(ctx, a)
		}
		if p.op.Outcome != judge.Declined {
			return p, nil
		}
		if time.Now().After(end) {
			after++
			if p.op.Code == api.BackendUnavailable && s.resumed > 0 && restarts < mostRestarts {
				after, restarts = 0, restarts+1
				s.Over(0)
			}
			if after > attemptsAfter {
				return p, nil
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return p, s.unserved(ctx, a)
		}
	}
}

// unserved is the error of a request that was not served before ctx ended; nil = it has not ended.
func (s *Scene) unserved(ctx context.Context, a *Actor) error {
	if ctx.Err() == nil {
		return nil
	}
	err := fmt.Errorf("faultlab: waiting until %s is served: %w", a.Name, context.Cause(ctx))
	for _, c := range a.Unanswered() {
		err = fmt.Errorf("%w (no answer from %s: %.200s)", err, c.Server, c.Text)
	}
	return err
}

// attemptsAfter is how often a product must be found busy after its bound before the judge calls it stuck; pause is the
// time between attempts. An attempt that a server did not answer in time, on a busy machine, proves nothing: the count
// of attempts starts again after it, mostRestarts times at most.
const (
	attemptsAfter = 3
	mostRestarts  = 10
	pause         = 60 * time.Millisecond
)

// WaitOrStuck waits for p, a request sent to a after the fault was over. A service that waits for a lock that nobody
// releases never answers p: then WaitOrStuck sends more requests, and if none is answered, it kills the replica, so
// that these requests can have no late effect, and marks them as stuck, see decline. bound is how long a lock may
// outlive its holder. An error: the replica waits for a server that does not answer, or ctx has ended.
func (s *Scene) WaitOrStuck(ctx context.Context, a *Actor, p *Pending, bound time.Duration) error {
	if !s.Lane.Service.Waits {
		return p.Wait(ctx)
	}
	asked := []*Pending{p}
	for range attemptsAfter {
		if answeredWithin(ctx, bound+stuckAfter, asked) {
			return nil
		}
		bound = 0
		asked = append(asked, s.Ask(a, s.NewKey()))
	}
	if answeredWithin(ctx, stuckAfter, asked) {
		return nil
	}
	waiting, inServer := slices.DeleteFunc(asked, (*Pending).answered), a.blocked(0)
	if inServer { // by a row that nobody frees, if that can be read: a connection may have kept its transaction
		if _, err := s.Lane.Ledger(ctx); err != nil {
			return fmt.Errorf("faultlab: nobody is served any more, and %s waits for a server: %w", a.Name, err)
		}
	}
	s.Note(a, Killed, "")
	a.Kill()
	if inServer {
		s.Lane.Abandon() // whoever has the row
	}
	if err := errors.Join(a.Discard(ctx), s.Lane.Heal(ctx)); err != nil {
		return err
	}
	for _, one := range waiting {
		if err := one.Wait(ctx); err != nil {
			return err
		}
		one.stuck = true
	}
	return nil
}

// stuckAfter is how long a client waits beyond the bound, since the machine may be busy.
const stuckAfter = 3 * time.Second

// answeredWithin says whether all requests were answered in time.
func answeredWithin(ctx context.Context, within time.Duration, asked []*Pending) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for _, p := range asked {
		select {
		case <-p.done:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
