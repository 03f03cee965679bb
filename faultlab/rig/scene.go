package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/wire"
)

// Stock is what a schedule begins with where it does not say otherwise: enough for all who ask, so that a refusal is always wrong.
const Stock = 10

// ErrNotReached says that a request has come to its end, or to a standstill, without its position.
var ErrNotReached = errors.New("faultlab: the position was not reached")

// Scene is one schedule on a lane, from the stock's reset to the judge. Its methods are for one goroutine.
type Scene struct {
	Lane *Lane
	ask  Ask

	began time.Time
	since int64 // calls with a higher number belong to the scene
	keys  int

	resumed time.Duration // when the fault was over; see audit.Input
	judged  time.Time     // when the judge began to read the ledger; zero = not yet
	bound   time.Duration

	accused string // letters added by Accuse
	why     string

	mu     sync.Mutex
	ops    []*Pending
	events []Event
}

// Event is something that happened to a replica, beside its commands.
type Event struct {
	At    time.Duration `json:"at_ns"` // since the scene began
	Actor string        `json:"actor"`
	What  What          `json:"what"`
	Text  string        `json:"text,omitempty"`
}

// What happened.
type What string

// The events of a scene.
const (
	Asked      What = "asked"    // a client sent a request
	Answered   What = "answered" // it has its answer: outcome and code
	Held       What = "held"     // at a position
	Passed     What = "passed"   // the held message goes on
	Blocked    What = "blocked"  // a rival waits in a server, or in its process
	Paused     What = "paused"   // SIGSTOP
	Resumed    What = "resumed"  // SIGCONT
	Killed     What = "killed"   // SIGKILL
	Broken     What = "broken"   // the connection on which the command is held
	Lost       What = "lost"     // the answer, on its way to the client
	FailedOver What = "failover"
	Terminated What = "terminated" // SIGTERM
	HasEnded   What = "ended"      // by itself
	// SessionEnded is a session that a server ended while its client is alive.
	SessionEnded What = "session-ended"
	// DatabaseKilled and DatabaseBack are SIGKILL of the database, and its restart.
	DatabaseKilled What = "database-killed"
	DatabaseBack   What = "database-back"
	// RowsLocked and RowsFree begin and end a transaction of the lab that locks the rows of a table; ReadOnly and WritableAgain are the
	// state of the database.
	RowsLocked    What = "rows-locked"
	RowsFree      What = "rows-free"
	ReadOnly      What = "read-only"
	WritableAgain What = "writable-again"
	Struck        What = "server" // something was done to a server; the text says what, and to which
)

// Pending is a request on its way.
type Pending struct {
	done chan struct{}
	op   audit.Op
}

// NewScene resets the lane and begins a schedule.
func (l *Lane) NewScene(ctx context.Context, ask Ask) (*Scene, error) {
	if err := l.Reset(ctx, ask); err != nil {
		return nil, err
	}
	ask.Product = l.Product()
	return &Scene{Lane: l, ask: ask, began: time.Now(), since: l.lastCall()}, nil
}

func (s *Scene) now() time.Duration { return time.Since(s.began) }

// Note records an event.
func (s *Scene) Note(a *Actor, what What, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, Event{At: s.now(), Actor: a.Name, What: what, Text: text})
}

// NewKey returns an idempotency key that no other request of the scene has.
func (s *Scene) NewKey() string {
	s.keys++
	return fmt.Sprintf("lab-%d-%d-%d", s.Lane.number, s.began.UnixNano(), s.keys)
}

// Ask sends a request to an actor, which fails at once where a lock is held.
func (s *Scene) Ask(a *Actor, key string) *Pending { return s.AskWithin(a, key, 0) }

// AskWithin sends a request that waits for a lock.
func (s *Scene) AskWithin(a *Actor, key string, wait time.Duration) *Pending {
	ask := s.ask
	ask.Key, ask.Wait = key, wait
	p := &Pending{done: make(chan struct{})}
	s.mu.Lock()
	p.op = audit.Op{Client: len(s.ops), Call: int64(s.now()), ProductID: ask.Product, Quantity: 1, Key: key, Outcome: audit.Unknown}
	s.ops = append(s.ops, p)
	s.mu.Unlock()
	s.Note(a, Asked, "")
	go func() {
		op := s.send(a, ask)
		op.Client, op.Call, op.ProductID, op.Quantity, op.Key = p.op.Client, p.op.Call, p.op.ProductID, p.op.Quantity, key
		op.Return = int64(s.now())
		s.mu.Lock()
		p.op = op
		s.mu.Unlock()
		s.Note(a, Answered, strings.TrimSpace(string(op.Outcome)+" "+string(op.Code)))
		close(p.done)
	}()
	return p
}

// send returns what the client learns.
func (s *Scene) send(a *Actor, ask Ask) audit.Op {
	unknown := audit.Op{Outcome: audit.Unknown}
	req, err := s.Lane.Service.Request(a.URL, ask)
	if err != nil {
		return unknown
	}
	res, err := s.Lane.client.Do(req)
	if err != nil {
		return unknown
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return unknown
	}
	return s.Lane.Service.Answer(res, body)
}

// Done is closed when the answer has come.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Op is what the client knows; to be read after Done.
func (p *Pending) Op() audit.Op { return p.op }

// Wait waits for the answer.
func (p *Pending) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("faultlab: waiting for an answer: %w", context.Cause(ctx))
	}
}

// Hold sends a request to an actor and returns when it is held at the position. ErrNotReached: it came to its end before that.
func (s *Scene) Hold(ctx context.Context, a *Actor, at Position, key string, wait time.Duration) (*Pending, *wire.Hold, error) {
	hold, err := a.Arm(at)
	if err != nil {
		return nil, nil, err
	}
	p := s.AskWithin(a, key, wait)
	select {
	case <-hold.Reached():
		s.Note(a, Held, at.String())
		return p, hold, nil
	case <-p.done:
	case <-ctx.Done():
	}
	hold.Cancel()
	if ctx.Err() != nil {
		return p, nil, fmt.Errorf("%w: %s: %w", ErrNotReached, at, context.Cause(ctx))
	}
	return p, nil, fmt.Errorf("%w: %s answered %s %s", ErrNotReached, a.Name, p.op.Outcome, p.op.Code)
}

// Settle waits until the request has its answer, or is blocked: a server that may block owes an answer for a while, or nothing moves
// at all. It is no bound on anything: a rival that was only slow is given way to a little early.
func (s *Scene) Settle(ctx context.Context, a *Actor, p *Pending) (blocked bool) {
	last, moved := s.progress(a), time.Now()
	for {
		select {
		case <-p.done:
			return false
		case <-ctx.Done():
			return true
		case <-time.After(look(moved)):
		}
		if now := s.progress(a); now != last {
			last, moved = now, time.Now()
		} else if time.Since(moved) > blockedAfter && (a.blocked() || time.Since(moved) > stillAfter) {
			s.Note(a, Blocked, "")
			return true
		}
	}
}

// look returns the time until the next poll of a request that last made progress at moved. Polls get rarer: most answers come at once, and a
// request without progress waits for a lease to expire.
func look(moved time.Time) time.Duration { return min(polling+time.Since(moved)/8, 10*polling) }

// blockedAfter is how long a server may owe an answer before a rival counts as blocked in it; stillAfter how long a request may do
// nothing at all before it counts as waiting inside its process.
const (
	blockedAfter = 80 * time.Millisecond
	stillAfter   = 600 * time.Millisecond
)

// blocked says whether a call of the actor is held by a proxy or unanswered by the database, the only server whose clients wait for each other's
// locks.
func (a *Actor) blocked() bool {
	return slices.ContainsFunc(a.Unanswered(), func(c wire.Call) bool { return c.Sent.IsZero() || c.Server == Database })
}

// progress changes whenever the actor sends a command or gets an answer. For a service that polls for its lock, only the first few (spins) of
// equal commands count.
func (s *Scene) progress(a *Actor) [2]int {
	calls := a.Calls(s.since)
	sent, answered := 0, 0
	seen := map[string]int{}
	for _, c := range calls {
		if seen[c.Pattern]++; s.Lane.Service.Waits && seen[c.Pattern] > spins {
			continue
		}
		sent++
		if !c.Answered.IsZero() {
			answered++
		}
	}
	return [2]int{sent, answered}
}

// spins is how often a request may send the same command before it counts as waiting.
const spins = 3

// AskUntilServed asks an actor again and again while a lock is held, for at most that long, and then often enough for the judge to call
// the product stuck. A request that is blocked in a server is left on its way, and returned.
func (s *Scene) AskUntilServed(ctx context.Context, a *Actor, within time.Duration) (*Pending, error) {
	end := time.Now().Add(within)
	return s.askAgain(ctx, a, within, func(p *Pending) bool { return s.served(ctx, a, p, end) })
}

// AskAlone is AskUntilServed for when no other request is under way: it waits for every answer, however slow the machine is.
func (s *Scene) AskAlone(ctx context.Context, a *Actor, within time.Duration) error {
	_, err := s.askAgain(ctx, a, within, func(p *Pending) bool { return p.Wait(ctx) != nil })
	return err
}

func (s *Scene) askAgain(ctx context.Context, a *Actor, within time.Duration, blocked func(*Pending) bool) (*Pending, error) {
	end, after := time.Now().Add(within), 0
	for {
		p := s.Ask(a, s.NewKey())
		if blocked(p) { // in a server, by a transaction of the victim
			return p, ctx.Err()
		}
		if p.op.Outcome != audit.Declined {
			return p, nil
		}
		if time.Now().After(end) {
			if after++; after > attemptsAfter {
				return p, nil
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return p, context.Cause(ctx)
		}
	}
}

// attemptsAfter is how often a product must be found busy after its bound before the judge calls it stuck; pause is the time between attempts.
const (
	attemptsAfter = 3
	pause         = 60 * time.Millisecond
)

// Over says that the fault is over: whatever a dead holder held must be free when bound has passed.
func (s *Scene) Over(bound time.Duration) { s.resumed, s.bound = s.now(), bound }

// readable returns a command as a story shows it: a script by its name instead of its hash.
func readable(c wire.Call) string {
	if strings.HasPrefix(c.Text, "EVAL") {
		return c.Pattern
	}
	return c.Text
}

// Accuse makes Judge report a letter, and the reason, that ledger and history cannot show.
func (s *Scene) Accuse(letter, why string) { s.accused, s.why = letter, why }

// Judge waits until all is quiet, reads the ledger once and judges.
func (s *Scene) Judge(ctx context.Context) (audit.Report, error) {
	if err := errors.Join(s.Lane.Quiesce(ctx), s.Lane.unread()); err != nil {
		return audit.Report{}, err
	}
	s.judged = time.Now()
	ledger, err := s.Lane.Ledger(ctx)
	if err != nil {
		return audit.Report{}, err
	}
	history := s.History()
	if s.Lane.Service.Waits {
		history = named(history, ledger.Orders)
	}
	r := audit.Judge(audit.Input{
		Mode: s.ask.Mode, Store: s.store(ledger), Ledger: ledger, History: history, Directed: true,
		Resumed: int64(s.resumed), Bound: s.bound,
	})
	if s.accused != "" {
		r.Found, r.Verdict, r.Violations = strings.TrimSpace(r.Found+" "+s.accused), audit.Broken, append(r.Violations, s.why)
	}
	return r, nil
}

// store is where the count lives.
func (s *Scene) store(l *api.Ledger) api.Store {
	if s.ask.Store != "" {
		return s.ask.Store
	}
	for store := range l.Initial {
		return store
	}
	return ""
}

// History is what the clients saw.
func (s *Scene) History() []audit.Op {
	s.mu.Lock()
	defer s.mu.Unlock()
	ops := make([]audit.Op, len(s.ops))
	for i, p := range s.ops {
		ops[i] = p.op
	}
	return ops
}

// GiveUp makes the client's knowledge of an answer unknown: it was lost on its way.
func (s *Scene) GiveUp(p *Pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.op.Outcome, p.op.OrderID, p.op.Remaining, p.op.Code = audit.Unknown, "", nil, ""
}

// Events returns what happened, in order.
func (s *Scene) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Event(nil), s.events...)
}

// Call is a command of the scene, as it passed the proxy.
type Call struct {
	At     time.Duration // when it reached the server, or came to the proxy where it never did
	Actor  string
	Server string
	Text   string
}

// Calls returns the commands of all actors, without those that set up connections or read the ledger.
func (s *Scene) Calls() []Call {
	var all []Call
	for _, a := range s.Lane.actors() {
		for _, c := range a.Calls(s.since) {
			judge := !s.judged.IsZero() && c.Sent.After(s.judged)
			if !c.Setup && !c.Poll && !c.Sent.IsZero() && !judge {
				all = append(all, Call{At: c.Sent.Sub(s.began), Actor: a.Name, Server: c.Server, Text: readable(c)})
			}
		}
	}
	return all
}
