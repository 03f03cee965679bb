package stepper

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/stack/wire"
	"lastitem/target"
)

// play is the part of a schedule that has been played.
type play struct {
	lane    *rig.Lane
	lesson  Lesson
	scene   *rig.Scene
	held    rig.Reservation // made before the clients' requests, see Lesson.Asks
	clients []*client
	start   Stores
	steps   []Step
	stores  Stores            // now
	owners  map[string]string // the client that changed a key last, "A", by the key's name
	orders  []api.Order
	stock   int64
	foreign bool // a client has deleted the other client's lock
	tickets tickets
	replica *gear.Copy    // answers reads outside transactions; nil = the lesson has none
	lags    bool          // the replica applies nothing
	winning atomic.Bool   // the first ticket is won, which is not the reader's doing
	won     int           // the number of moves after which the aim was reached; -1 = not yet
	left    time.Time     // when the last move had been played
	thought time.Duration // how long the reader has thought between moves, in all
}

// tickets is what a play of a lesson about tickets notes.
type tickets struct {
	front   int64           // what Redis has for sale
	waiting []string        // the tickets in Redis, in the short form of ids
	again   bool            // a consumer was killed between the COMMIT of an order and the end of its ticket
	ran     bool            // the job has run
	lost    map[string]bool // the orders that buyers were promised before the master died; nil = it has not died
}

// abandonWithin bounds the time in which the requests of the previous schedule end.
const abandonWithin = 5 * time.Second

// begin resets the lane and sends the requests of both clients. Each is held at its first command.
func begin(ctx context.Context, lane *rig.Lane, before *play, l Lesson) (_ *play, err error) {
	if before != nil {
		ending, cancel := context.WithTimeout(ctx, abandonWithin)
		before.scene.Abandon(ending)
		cancel()
		before.end()
		if slices.ContainsFunc(before.clients, (*client).soldOut) {
			lane.Warm = "" // a replica that has refused last would first ask whether the product is still sold out
		}
	}
	scene, err := lane.NewScene(ctx, rig.Ask{Ask: target.Ask{Mode: l.Mode, Store: l.Store}, Stock: l.Stock})
	if err != nil {
		return nil, err
	}
	if err := lane.Fresh(ctx); err != nil {
		return nil, err
	}
	p := &play{lane: lane, lesson: l, scene: scene, owners: map[string]string{}, won: -1}
	defer func() {
		if err != nil {
			p.end()
		}
	}()
	if l.splits {
		if p.replica, err = lane.SQL.Copy(ctx); err != nil {
			return nil, err
		}
		if err := errors.Join(p.replica.CatchUp(ctx), p.split()); err != nil {
			return nil, err
		}
	}
	if l.Asks != nil {
		first := scene.Reservations.AskAgain(lane.C, rig.Reserve, rig.Reservation{}, "")
		if err := first.Wait(ctx); err != nil {
			return nil, err
		}
		p.held = first.Made()
	}
	for i, a := range []*rig.Actor{lane.A, lane.B} {
		c := &client{name: a.Name, letter: strings.ToLower(a.Name), actor: a, key: "order-" + a.Name,
			inFlight: lane.InFlight}
		if l.splits {
			c.split = p.split
		}
		c.consumes = strings.Contains(l.Consumers, c.letter)
		c.gate = a.Gate(p.open(c))
		if l.Asks != nil {
			// The row of a payment outlives the schedule, so that the key is one that no other schedule has.
			c.wants, c.of, c.key = l.Asks[i], p.held, scene.NewKey()
		}
		if c.consumes {
			a.Turn(nil) // the gate holds its commands
		}
		p.clients = append(p.clients, c)
	}
	if l.equipment.Consume {
		if err := p.prepare(ctx); err != nil {
			return nil, err
		}
	}
	for _, c := range p.clients {
		if err := c.ask(ctx, scene); err != nil {
			return nil, err
		}
	}
	if p.start, err = p.look(ctx); err != nil {
		return nil, err
	}
	p.stores = p.start
	err = p.count(ctx)
	return p, err
}

// split has the replica answer what the clients read outside transactions.
func (p *play) split() error {
	_, err := rig.ReadCopy(p.scene, p.replica, nil)
	return err
}

// end ends the replica; nobody may use it any more.
func (p *play) end() {
	if p != nil && p.replica != nil {
		p.replica.Close()
	}
}

// prepare brings a lesson about tickets to the state in which the reader begins.
func (p *play) prepare(ctx context.Context) error {
	if p.lesson.Consumers == "" {
		return errors.Join(p.lane.Pair.Replicated(ctx), p.lane.Pair.Cut(ctx, 1))
	}
	p.winning.Store(true)
	err := p.scene.Tickets.Win(ctx, p.lane.A)
	p.winning.Store(false)
	if err == nil && p.lesson.leaks > 0 {
		err = p.lane.Overwrite(ctx, p.lesson.Stock-1-p.lesson.leaks)
	}
	return err
}

// unremarkable matches commands that are not held: they prepare the next command, or belong to the start of a process.
func unremarkable(c wire.Call) bool {
	return strings.HasPrefix(c.Text, "SET TRANSACTION ") || strings.Contains(c.Text, "lastitem_migrat") ||
		c.Text == "SELECT DATABASE()"
}

// open returns what a client's gate lets pass on a lane with consumers: what asks whether a ticket waits. A buyer's
// replica writes no orders, and the purchase of a consumer's ticket is over before its commands are held.
func (p *play) open(c *client) func(wire.Call) bool {
	reads := func(call wire.Call) bool {
		first := gear.Consuming[call.Server]
		return first != nil && first(call)
	}
	return func(call wire.Call) bool {
		if unremarkable(call) || p.lesson.equipment.Consume && gear.Watches(call) {
			return true
		}
		return p.lesson.equipment.Consume && reads(call) != c.consumes && (!c.consumes || p.winning.Load())
	}
}

// moves returns the moves that were played.
func (p *play) moves() []string {
	all := make([]string, len(p.steps))
	for i, s := range p.steps {
		all[i] = s.Move
	}
	return all
}

// move makes a move, if it is possible, and reads the stores.
func (p *play) move(ctx context.Context, move string) (possible bool, err error) {
	step := Step{Move: move}
	var mover *client
	switch {
	case move == expire && p.lesson.event != nil:
		if possible, err = p.lesson.event(ctx, p, &step); !possible {
			return false, err
		}
	case move == expire && p.lesson.Asks != nil:
		if possible, err = p.scene.Reservations.PassDeadline(ctx, p.held); !possible {
			return false, err
		}
	case move == expire:
		step.Renewed, err = p.expire(ctx)
	default:
		mover = p.clients[strings.Index("ab", move[:1])]
		verb := move[1:]
		if !slices.Contains(mover.can(), verb) {
			return false, nil
		}
		step.Client = mover.name
		if mover.at != nil {
			step.Command = mover.command()
		}
		err = mover.do(ctx, p.scene, verb)
	}
	if err != nil {
		return false, err
	}
	if err := p.write(ctx); err != nil {
		return false, err
	}
	for _, c := range p.clients {
		if c != mover && c.phase == Waiting && !c.actor.Stopped() {
			if err := c.settle(ctx, rig.BlockedAfter); err != nil {
				return false, err
			}
		}
	}
	return true, p.note(ctx, step, mover)
}

// await waits until the client of a move no longer waits, for at most [rig.Still].
func (p *play) await(ctx context.Context, move string) error {
	ctx, cancel := context.WithTimeout(ctx, rig.Still)
	defer cancel()
	for _, c := range p.clients {
		for c.letter == move[:1] && c.phase == Waiting && !c.arrived() {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return nil // the move is not possible
			}
		}
	}
	return nil
}

// note adds a step with the contents of the stores after it.
func (p *play) note(ctx context.Context, step Step, mover *client) error {
	before := p.stores
	var err error
	if p.stores, err = p.look(ctx); err != nil {
		return err
	}
	if mover != nil {
		step.Deleted = p.own(before, p.stores, mover.name)
		step.Phase, step.Answer = mover.phase, mover.answer()
		if verb := step.Move[1:]; verb == advance || verb == hold || verb == lose {
			step.Said = said(mover.last)
		}
	}
	if err := p.count(ctx); err != nil {
		return err
	}
	p.recall(mover != nil && mover.phase == Dead && step.Move[1:] == kill)
	step.Stores = p.stores
	p.steps = append(p.steps, step)
	if p.won < 0 && p.lesson.reached(p) {
		p.won = len(p.steps)
	}
	return nil
}

// recall notes what the aims of lessons about tickets ask for. killed: the move has killed a client.
func (p *play) recall(killed bool) {
	p.tickets.waiting = nil
	for _, k := range p.stores.Redis {
		switch {
		case strings.HasPrefix(k.Name, "stock:"):
			p.tickets.front, _ = strconv.ParseInt(k.Values[0], 10, 64)
		case strings.HasPrefix(k.Name, "tickets:"):
			for i := 0; i+1 < len(k.Values); i += 2 {
				p.tickets.waiting = append(p.tickets.waiting, k.Values[i])
			}
		}
	}
	p.tickets.again = p.tickets.again || killed && len(p.orders) > 0 && len(p.tickets.waiting) > 0
}

// write has the prober's consumer write the orders of all tickets that wait, once the master has died.
func (p *play) write(ctx context.Context) error {
	if p.tickets.lost == nil {
		return nil
	}
	_, err := p.scene.Tickets.TakeOver(ctx)
	return err
}

// own records which keys the moving client has changed. It returns true if that client has deleted the other client's
// lock.
func (p *play) own(before, after Stores, mover string) (deleted bool) {
	had, has := before.values(), after.values()
	for key, value := range has {
		if had[key] != value {
			p.owners[key] = mover
		}
	}
	for key := range had {
		if _, still := has[key]; still {
			continue
		}
		if owner := p.owners[key]; key == p.lesson.lock(p.lane) && owner != mover && owner != "" {
			p.foreign, deleted = true, true
		}
		delete(p.owners, key)
	}
	return deleted
}

// expire ends every lock that has a TTL, as if the TTL had passed. A lock whose process renews it does not expire,
// unless the process is stopped or dead. expire returns true if a lock was kept for that reason.
func (p *play) expire(ctx context.Context) (renewed bool, err error) {
	var ended []string
	for _, key := range p.stores.Redis {
		if key.TTL < 0 || key.TTL > ttl.Milliseconds() {
			continue
		}
		if p.lesson.renews && p.alive(p.owners[key.Name]) {
			renewed = true
			continue
		}
		ended = append(ended, key.Name)
	}
	for _, name := range ended {
		delete(p.owners, name)
	}
	return renewed, p.lane.EndKeys(ctx, ended...)
}

// alive reports whether a client's process runs.
func (p *play) alive(name string) bool {
	c := p.client(name)
	return c != nil && c.phase != Dead && !c.actor.Stopped()
}

func (p *play) client(name string) *client {
	for _, c := range p.clients {
		if c.name == name {
			return c
		}
	}
	return nil
}

// count reads the stock and the orders from the ledger.
func (p *play) count(ctx context.Context) error {
	ledger, err := p.scene.Tickets.Books(ctx)
	if err != nil {
		return err
	}
	p.orders, p.stock = ledger.Orders, ledger.Stock[p.lesson.Store]
	return nil
}

// keys returns the number of orders for each idempotency key.
func (p *play) keys() map[string]int {
	all := map[string]int{}
	for _, o := range p.orders {
		all[o.Key]++
	}
	return all
}

// most returns the largest number of orders for one key.
func (p *play) most() int {
	most := 0
	for n := range maps.Values(p.keys()) {
		most = max(most, n)
	}
	return most
}
