// Package follow asks what becomes of tickets, each until it has ended.
package follow

import (
	"context"
	"sync"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
)

// Figures is what became of the tickets of a run.
type Figures struct {
	Won  int            `json:"won"`  // answered 202, replays apart
	Ends map[string]int `json:"ends"` // by state; "" = there is no such ticket, "queued" = it never ended
	// InFlight is the most that were won and not ended at once.
	InFlight int `json:"in_flight"`
	// Told has every answer, by product, and Ages the time from each 202 to the answer that told the end, in nanoseconds.
	Told map[int64][]judge.TicketOp `json:"-"`
	Ages []int64                    `json:"-"`
	Last int64                      `json:"-"` // when the last end was told
}

// Ask asks for a ticket, and waits for its end for at most wait.
type Ask func(ctx context.Context, id string, wait time.Duration) (api.Ticket, error)

// A follower waits for one ticket in one call for at most followWait, and asks again followAfter after an error.
const (
	followWait  = 2 * time.Second
	followAfter = 100 * time.Millisecond
	lookEvery   = 20 * time.Millisecond
)

// wonTicket is a ticket whose end is not known.
type wonTicket struct {
	id      string
	product int64
	at      int64 // when its 202 came
}

// Followers ask for the tickets of a run in the order in which they were won.
type Followers struct {
	ask   Ask
	now   func() int64   // the run's clock, in nanoseconds
	ended func(at int64) // is told of each end
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu    sync.Mutex
	queue []wonTicket
	more  chan struct{} // has an element while the queue may not be empty
	known map[string]bool
	left  int
	seen  Figures
}

// New begins to follow, with n calls at a time. ended is told when the end of a ticket was told, by the clock now.
func New(n int, ask Ask, now func() int64, ended func(at int64)) *Followers {
	ctx, cancel := context.WithCancel(context.Background())
	f := &Followers{ask: ask, now: now, ended: ended, stop: cancel, more: make(chan struct{}, 1), known: map[string]bool{},
		seen: Figures{Ends: map[string]int{}, Told: map[int64][]judge.TicketOp{}}}
	for range n {
		f.tasks.Go(func() { f.work(ctx) })
	}
	return f
}

// Stop waits until all tickets have ended, or none has for patience, and returns the figures.
func (f *Followers) Stop(patience time.Duration) Figures {
	f.drain(patience)
	f.stop()
	f.tasks.Wait()
	if f.left > 0 {
		f.seen.Ends[api.TicketQueued] = f.left
	}
	return f.seen
}

// Add is told of a 202.
func (f *Followers) Add(id string, product, at int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known[id] {
		return // a replay
	}
	f.known[id] = true
	f.queue = append(f.queue, wonTicket{id, product, at})
	f.seen.Won++
	f.left++
	f.seen.InFlight = max(f.seen.InFlight, f.left)
	f.signal()
}

// signal wakes a worker; the queue is locked.
func (f *Followers) signal() {
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// take returns the next ticket; false = ctx has ended.
func (f *Followers) take(ctx context.Context) (wonTicket, bool) {
	for {
		select {
		case <-ctx.Done():
			return wonTicket{}, false
		case <-f.more:
		}
		f.mu.Lock()
		if len(f.queue) > 0 {
			next := f.queue[0]
			if f.queue = f.queue[1:]; len(f.queue) > 0 {
				f.signal()
			}
			f.mu.Unlock()
			return next, true
		}
		f.mu.Unlock()
	}
}

func (f *Followers) work(ctx context.Context) {
	for {
		t, ok := f.take(ctx)
		if !ok {
			return
		}
		for !f.tell(ctx, t) {
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// tell asks for a ticket once, and says whether it has ended.
func (f *Followers) tell(ctx context.Context, t wonTicket) bool {
	op := judge.TicketOp{ID: api.Ticket{TicketID: t.id}.OrderOf(), Call: f.now()}
	said, err := f.ask(ctx, t.id, followWait)
	if op.Return = f.now(); err != nil {
		select {
		case <-time.After(followAfter):
		case <-ctx.Done():
		}
		return false
	}
	op.State, op.Order = said.State, said.OrderID
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen.Told[t.product] = append(f.seen.Told[t.product], op)
	if op.State == api.TicketQueued {
		return false
	}
	f.seen.Ends[op.State]++
	f.left--
	f.seen.Last = max(f.seen.Last, op.Return)
	f.seen.Ages = append(f.seen.Ages, op.Return-t.at)
	f.ended(op.Return)
	return true
}

// drain waits until all tickets have ended, or none has for patience.
func (f *Followers) drain(patience time.Duration) {
	for before, since := -1, time.Now(); time.Since(since) < patience; time.Sleep(lookEvery) {
		f.mu.Lock()
		left := f.left
		f.mu.Unlock()
		if left == 0 {
			return
		}
		if left != before {
			before, since = left, time.Now()
		}
	}
}
