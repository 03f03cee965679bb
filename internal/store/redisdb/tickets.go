package redisdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// A ticket is a sale that was won here and whose order is still to be written in SQL. Each arrow of its life is one
// script. A ticket is in the hash if and only if its entry is in the stream: each script changes both or neither.
//
//	tickets:{101}  by id: the units of each ticket in flight; the id is its order's
//	stream:{101}   the orders to be written, JSON, each with the run in SQL that it was won in
//	tries:{101}    by id: how often a ticket was tried alone
//	dropped:{101}  what was in the stream and could not be read
//	rules:{101}    book: the run in SQL; passed: the units of tickets whose orders are in SQL; generation: the number of
//	               the last correction; corrected: what corrections have added for orders that were not known here
//	ticketing      the products that may have tickets, for the consumers

// ticketGroup is the group of all consumers.
const ticketGroup = "shop"

var ticketReadScript, ticketEndScript, ticketDropScript, ticketLookScript, ticketCorrectScript, ticketSendScript,
	ticketBackScript = script("ticket_read"), script("ticket_end"), script("ticket_drop"), script("ticket_look"),
	script("ticket_correct"), script("ticket_send"), script("ticket_back")

// Tickets are the tickets of a store. There is one for each store in a process.
type Tickets struct {
	// Replicas of the server must have a ticket before it is told, also one that is told again; set it before the first.
	Replicas int
	// Forget is how long a consumer without tickets must have been idle to be deleted, when tickets are taken over.
	Forget    time.Duration
	s         *Store
	ticketing roll
}

// NewTickets returns the tickets of a store.
func NewTickets(s *Store) *Tickets {
	return &Tickets{s: s, Forget: time.Hour, ticketing: roll{s: s, set: "ticketing", family: "stream"}}
}

// Win is [Store.Sell] for a ticket instead of an order: a sale of one order, whose id becomes the ticket's. A refusal
// is not kept under the key: units may come back. store.ErrQueueFull if most tickets are in flight, and
// store.ErrReservationUnsupported if the count is written absolutely, or was set while there was no SQL.
// store.ErrUnknown if too few replicas have confirmed it: it stands, but a failover may lose it.
func (t *Tickets) Win(ctx context.Context, s Sale, most int) (Sold, error) {
	if err := t.ticketing.announce(ctx, s.Orders[0].ProductID); err != nil {
		return Sold{}, err
	}
	s.tickets, s.replicas = most, t.Replicas
	return t.s.Sell(ctx, s)
}

// Send sends the ticket of an order whose units [Tickets.Win] has taken Apart from it.
func (t *Tickets) Send(o ledger.Order) error {
	row, err := json.Marshal(o)
	if err == nil {
		_, err = t.s.eval(ticketSendScript, t.keys(o.ProductID, "stream", "tickets", "rules"), []any{o.ID, o.Quantity, row})
	}
	return writeError(err)
}

// PutBack puts the units of such an order back.
func (t *Tickets) PutBack(o ledger.Order) error {
	_, err := t.s.eval(ticketBackScript, t.keys(o.ProductID, "stock"), []any{o.Quantity})
	return writeError(err)
}

// Entry is a ticket as a consumer gets it.
type Entry struct {
	At         string // the id of its entry in the stream
	Run        int64
	Order      ledger.Order
	Deliveries int64
	Alone      int64 // how often it was tried alone
}

// Read returns the next tickets of a product for a consumer, atMost: those that another consumer has had for longer
// than idle, else those that nobody has had. An entry that is no ticket is moved to a stream of its own, and is told in
// dropped.
func (t *Tickets) Read(
	ctx context.Context, product int64, consumer string, idle time.Duration, atMost int,
) (tickets []Entry, dropped []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
	}
	reply, err := t.s.eval(ticketReadScript, []string{t.s.key("stream", product), t.s.key("tries", product)},
		[]any{ticketGroup, consumer, idle.Milliseconds(), atMost, t.Forget.Milliseconds()})
	if err != nil {
		return nil, nil, readError(err, product)
	}
	list, _ := reply.([]any)
	for _, e := range list {
		row, _ := e.([]any)
		entry, err := entryOf(product, row)
		if err == nil {
			tickets = append(tickets, entry)
			continue
		}
		dropped = append(dropped, fmt.Sprintf("%s: %v", textAt(row, 0), err))
		if _, err := t.s.eval(ticketDropScript, []string{t.s.key("stream", product), t.s.key("dropped", product)},
			[]any{ticketGroup, textAt(row, 0)}); err != nil {
			return tickets, dropped, writeError(err)
		}
	}
	return tickets, dropped, nil
}

// entryOf decodes an entry of the script's reply.
func entryOf(product int64, row []any) (e Entry, err error) {
	e.At = textAt(row, 0)
	if len(row) < 5 {
		return e, fmt.Errorf("%d values", len(row))
	}
	e.Deliveries, _ = row[3].(int64)
	e.Alone, _ = row[4].(int64)
	err = errors.Join(integer(row, 1, &e.Run), json.Unmarshal([]byte(textAt(row, 2)), &e.Order))
	if err == nil && (e.Order.ProductID != product || e.Order.Quantity < 1 || e.Order.ID == "") {
		err = fmt.Errorf("an order of %d units of product %d", e.Order.Quantity, e.Order.ProductID)
	}
	return e, err
}

// Ended is the end of a ticket that is in the book.
type Ended struct {
	Entry

	GiveBack bool // its units and the buyer's right return; else they were sold
}

// End takes tickets out of those in flight, each once, however often it is told, and returns how many ended now.
func (t *Tickets) End(ctx context.Context, product int64, ends []Ended) (ended int64, err error) {
	args := append(make([]any, 0, 5*len(ends)+1), ticketGroup)
	for _, e := range ends {
		back := map[bool]int{true: 1}[e.GiveBack]
		args = append(args, e.At, e.Order.ID, e.Order.Quantity, back, e.Order.Buyer)
	}
	keys := t.keys(product, "stock", "buyers", "rules", "tickets", "stream", "tries")
	reply, err := t.once(ctx, ticketEndScript, keys, args)
	ended, _ = reply.(int64)
	return ended, err
}

// Sells says whether tickets of a product were won in its present run.
func (t *Tickets) Sells(ctx context.Context, product int64) (bool, error) {
	there, err := t.s.c.HExists(ctx, t.s.key("rules", product), "ticketed").Result()
	if err != nil {
		err = fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
	}
	return there, err
}

// Look is what Redis knows of a product that is sold by tickets, at one moment.
type Look struct {
	ledger.TicketLook

	Run      string // in the book
	Initial  int64  // here
	Other    bool   // a mode has ordered or held units of it here
	Ticketed bool   // it was sold by tickets
	// Tickets are the units, by id, of the tickets that may have an end; nil = too many.
	Tickets map[string]int64
}

// MostLooked is how many tickets of a product that may have an end a look takes.
const MostLooked = 10_000

// Look reads what a reconciliation needs, in one script.
func (t *Tickets) Look(product int64) (l Look, err error) {
	keys := t.keys(product, "stock", "initial", "orders", "rules", "tickets", "stream")
	reply, err := t.s.eval(ticketLookScript, keys, []any{ticketGroup, MostLooked})
	if err != nil {
		return l, readError(err, product)
	}
	list, _ := reply.([]any)
	if len(list) < 2 {
		why := map[bool]error{true: store.ErrUnknownProduct, false: store.ErrSegmented}[textAt(list, 0) == "unknown"]
		return l, &ledger.ProductError{Err: why, ProductID: product, Store: "redis"}
	}
	l.Run = textAt(list, 0)
	numbers, _ := list[1].([]any)
	var orders, changes, ticketed int64
	for i, to := range []*int64{&l.Front, &l.Initial, &orders, &changes, &ticketed, &l.Passed, &l.Corrected, &l.Generation,
		&l.InFlight, &l.OldestMS, &l.Stuck} {
		err = errors.Join(err, integer(numbers, i, to))
	}
	l.Other, l.Ticketed = orders+changes > 0, ticketed > 0
	if tickets, _ := list[2].([]any); tickets != nil {
		l.Tickets = make(map[string]int64, len(tickets)/2)
		for i := 0; i+1 < len(tickets); i += 2 {
			var units int64
			err = errors.Join(err, integer(tickets, i+1, &units))
			l.Tickets[textAt(tickets, i)] = units
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: redis: product %d was read as %v: %w", store.ErrUnavailable, product, numbers, err)
	}
	return l, err
}

// Correct makes a correction of the count, once, however often it is sent. done is false if the count was corrected
// since the look, or the stock was set: nothing was changed.
func (t *Tickets) Correct(ctx context.Context, c ledger.Correction) (done bool, err error) {
	reply, err := t.once(ctx, ticketCorrectScript, t.keys(c.Product, "stock", "rules"),
		[]any{c.Run, c.Base, c.Generation, c.Leaked, c.Forgotten})
	n, _ := reply.(int64)
	return n == 1, err
}

// InFlightAfter lists tickets of a product that are in flight, by id, those after an id, atMost.
func (t *Tickets) InFlightAfter(ctx context.Context, product int64, after string, atMost int) (
	page []ledger.TicketEnd, err error) {
	all, err := t.s.c.HGetAll(ctx, t.s.key("tickets", product)).Result()
	if err != nil {
		return nil, fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if id > after && len(page) < atMost {
			units, _ := strconv.ParseInt(all[id], 10, 64)
			page = append(page, ledger.TicketEnd{ID: id, ProductID: product, State: ledger.TicketQueued, Quantity: units})
		}
	}
	return page, nil
}

// Products lists those that may have tickets.
func (t *Tickets) Products(ctx context.Context) ([]int64, error) { return t.ticketing.announced(ctx) }

func (t *Tickets) keys(product int64, families ...string) []string {
	keys := make([]string, len(families))
	for i, family := range families {
		keys[i] = t.s.key(family, product)
	}
	return keys
}

// once runs a script that knows what it has done, again if its answer is lost.
func (t *Tickets) once(ctx context.Context, script *redis.Script, keys []string, args []any) (reply any, err error) {
	for lost := 0; ; lost++ {
		reply, err = t.s.eval(script, keys, args)
		if err = writeError(err); !errors.Is(err, store.ErrUnknown) || lost+1 == sellTries || ctx.Err() != nil {
			return reply, err
		}
	}
}

// Alone counts a try of a ticket alone, or takes one back.
func (t *Tickets) Alone(ctx context.Context, product int64, id string, more int64) error {
	return writeError(t.s.c.HIncrBy(ctx, t.s.key("tries", product), id, more).Err())
}

// Queued says for tickets of a product, at least one, whether each is in flight, and of how many units it is; 0 = it is
// not.
func (t *Tickets) Queued(ctx context.Context, product int64, ids ...string) ([]int64, error) {
	v, err := t.s.c.HMGet(ctx, t.s.key("tickets", product), ids...).Result()
	if err != nil {
		return nil, fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
	}
	units := make([]int64, len(ids))
	for i, v := range v {
		if text, ok := v.(string); ok {
			units[i], _ = strconv.ParseInt(text, 10, 64)
		}
	}
	return units, nil
}

// InFlight counts the tickets of a product that wait for their orders.
func (t *Tickets) InFlight(ctx context.Context, product int64) (int64, error) {
	n, err := t.s.c.HLen(ctx, t.s.key("tickets", product)).Result()
	if err != nil {
		err = readError(err, product)
	}
	return n, err
}

// Waiting lists the products that have tickets in flight.
func (t *Tickets) Waiting(ctx context.Context) (products []int64, err error) {
	all, err := t.ticketing.all(ctx)
	if len(all) == 0 {
		return nil, err
	}
	pipe := t.s.c.Pipeline()
	n := make([]*redis.IntCmd, len(all))
	for i, product := range all {
		n[i] = pipe.XLen(ctx, t.s.key("stream", product))
	}
	if _, failed := pipe.Exec(ctx); failed != nil {
		err = errors.Join(err, fmt.Errorf("%w: redis: %w", store.ErrUnavailable, failed))
	}
	for i, product := range all {
		if n[i].Val() > 0 {
			products = append(products, product)
		}
	}
	return products, err
}

// Oldest returns for how long the oldest ticket in flight of all products has waited, and how many there are.
func (t *Tickets) Oldest(ctx context.Context) (age time.Duration, inFlight int64, err error) {
	all, err := t.ticketing.announced(ctx)
	if len(all) == 0 {
		return 0, 0, err
	}
	pipe := t.s.c.Pipeline()
	clock := pipe.Time(ctx)
	first, n := make([]*redis.XMessageSliceCmd, len(all)), make([]*redis.IntCmd, len(all))
	for i, product := range all {
		first[i] = pipe.XRangeN(ctx, t.s.key("stream", product), "-", "+", 1)
		n[i] = pipe.HLen(ctx, t.s.key("tickets", product))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, 0, fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
	}
	for i := range all {
		inFlight += n[i].Val()
		for _, m := range first[i].Val() {
			ms, _, _ := strings.Cut(m.ID, "-")
			at, _ := strconv.ParseInt(ms, 10, 64)
			age = max(age, clock.Val().Sub(time.UnixMilli(at)))
		}
	}
	return age, inFlight, err
}
