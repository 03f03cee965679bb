package stepper

import (
	"context"
	"regexp"
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/stack/wire"
)

// A move is the letter of a client, "a" or "b", followed by the action; or expire.
const (
	advance  = ""  // the client's command is executed, the answer is delivered, and the next command is held
	hold     = "h" // the client's command is executed, and the answer is held
	lose     = "l" // the client's command is executed, and the answer is lost: the connection breaks
	stop     = "s" // the client's process stops (SIGSTOP)
	goOn     = "c" // the process runs again (SIGCONT)
	kill     = "k" // the process is killed (SIGKILL)
	askAgain = "r" // the client repeats its request, with the same idempotency key

	// Every lock with a TTL expires, unless its holder is alive to renew it; or the deadline of the reservation passes.
	expire = "x"
)

// maxMoves is the greatest length of a schedule.
const maxMoves = 80

var aMove = regexp.MustCompile(`^(?:[ab][hlsckr]?|x)`)

// parse returns the moves of a schedule such as "aabslx", up to the first letter that is not a move.
func parse(schedule string) (moves []string) {
	for len(moves) < maxMoves {
		m := aMove.FindString(schedule)
		if m == "" {
			break
		}
		moves, schedule = append(moves, m), schedule[len(m):]
	}
	return moves
}

// Phase is the state of a client's request.
type Phase string

// The phases.
const (
	Held     Phase = "held"     // the next command is held before the server
	Executed Phase = "executed" // the server has executed the command, and the answer is held
	Waiting  Phase = "waiting"  // a server has not answered yet, or the request waits in its process
	Answered Phase = "answered" // the client has the answer to its request
	Dead     Phase = "dead"     // the process was killed
)

// client is one of the two clients.
type client struct {
	name   string // "A"
	letter string // "a"
	actor  *rig.Actor
	gate   *rig.Gate
	wants  rig.Kind // of the reservation that was made before; "" = to buy
	of     rig.Reservation
	key    string

	split    func() error // has the replica answer after a restart; nil = the lesson has none
	consumes bool         // it writes orders, and has no request
	inFlight func(context.Context) (int, error)

	request *rig.Pending
	asked   int
	phase   Phase
	at      *rig.Passage // the command that is held, or was executed; nil = none
	last    *rig.Passage // the last command that was executed
	then    string       // what to do with the answer to the executed command: advance, hold or lose
}

// can lists the moves that the client can make now.
func (c *client) can() []string {
	stopped := c.actor.Stopped()
	all := []string{} // in JSON [], also of a dead consumer, who can do nothing
	for _, verb := range []string{advance, hold, lose, stop, goOn, kill, askAgain} {
		var possible bool
		switch verb {
		case advance, lose:
			possible = !stopped && (c.phase == Held || c.phase == Executed)
		case hold:
			possible = !stopped && c.phase == Held
		case stop:
			possible = !stopped && c.phase != Dead && c.phase != Answered
		case goOn:
			possible = stopped && c.phase != Dead
		case kill:
			possible = c.phase != Dead && c.phase != Answered
		case askAgain:
			possible = !c.consumes && (!stopped && c.phase == Answered || c.phase == Dead)
		}
		if possible {
			all = append(all, verb)
		}
	}
	return all
}

// ask sends the client's request, and returns when its first command is held.
func (c *client) ask(ctx context.Context, s *rig.Scene) error {
	if !c.actor.Alive() {
		if err := c.gate.Revive(ctx); err != nil {
			return err
		}
		if c.split != nil {
			if err := c.split(); err != nil {
				return err
			}
		}
	}
	c.asked++
	c.phase, c.at = Waiting, nil
	if c.consumes {
		return c.settle(ctx, rig.Still)
	}
	if c.wants != "" {
		c.request = s.Reservations.AskAgain(c.actor, c.wants, c.of, c.key)
	} else {
		c.request = s.Ask(c.actor, c.key)
	}
	return c.settle(ctx, rig.Still)
}

// do makes a move. The move must be possible.
func (c *client) do(ctx context.Context, s *rig.Scene, verb string) error {
	switch verb {
	case advance, hold, lose:
		c.then, c.last = verb, c.at
		if c.phase == Held {
			c.at.Execute()
		}
		c.phase = Waiting
		return c.settle(ctx, rig.Still)
	case stop:
		return c.actor.Pause(ctx)
	case goOn:
		if err := c.actor.Resume(); err != nil || c.phase != Waiting {
			return err
		}
		return c.settle(ctx, rig.Still)
	case kill:
		c.actor.Kill()
		c.phase, c.at = Dead, nil
		if err := c.actor.Discard(ctx); err != nil || c.consumes {
			return err
		}
		return c.request.Wait(ctx)
	default:
		return c.ask(ctx, s)
	}
}

// settle returns when a waiting client no longer waits, or when nothing has moved for a while in the database and in
// its process.
func (c *client) settle(ctx context.Context, still time.Duration) error {
	if c.consumes && c.phase == Waiting {
		return c.settleConsumer(ctx)
	}
	began := time.Now()
	for c.phase == Waiting && !c.arrived() {
		waited := time.Since(began)
		if waited > still || waited > rig.BlockedAfter && c.inDatabase() {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// restsFor is how long a consumer may take to see that a ticket waits, or to read again.
const restsFor = 5 * time.Second

// settleConsumer returns when the consumer is held, when it waits in the database, or when no ticket waits.
func (c *client) settleConsumer(ctx context.Context) error {
	for began := time.Now(); !c.arrived() && time.Since(began) < restsFor; {
		if time.Since(began) > rig.BlockedAfter {
			left, err := c.inFlight(ctx)
			if err != nil || left == 0 || c.inDatabase() {
				return err
			}
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// inDatabase reports whether the client waits for an answer of the database.
func (c *client) inDatabase() bool {
	return slices.ContainsFunc(c.actor.Unanswered(), func(call wire.Call) bool { return call.Server == gear.Database })
}

// arrived updates the phase of a request that has moved on, and reports whether the request no longer waits.
func (c *client) arrived() bool {
	if c.at != nil {
		if !c.at.Executed() {
			return c.answered()
		}
		if c.then == hold {
			c.phase = Executed
			return true
		}
		if c.then == lose {
			c.at.Lose()
		} else {
			c.at.Deliver()
		}
		c.at = nil
	}
	c.at = c.gate.Held()
	if c.at != nil {
		c.phase = Held
		return true
	}
	return c.answered()
}

// answered updates the phase of a request that has its answer, and reports whether it has.
func (c *client) answered() bool {
	if c.consumes {
		return false
	}
	select {
	case <-c.request.Done():
		if c.at != nil { // its server died
			c.at.Lose()
		}
		c.phase, c.at = Answered, nil
		return true
	default:
		return false
	}
}

// won says that the client was promised a unit.
func (c *client) won() bool { return c.phase == Answered && c.request.Op().OrderID != "" }

// soldOut says that the client's last request was refused.
func (c *client) soldOut() bool { return c.request != nil && c.request.Op().Code == api.SoldOut }
