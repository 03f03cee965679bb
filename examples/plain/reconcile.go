package plain

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"

	"github.com/redis/go-redis/v9"
)

// look reads Redis at one moment. KEYS: stock, tickets, generation. Returns the stock, the generation, and each ticket
// in flight with its units.
var look = redis.NewScript(`
return {redis.call('GET', KEYS[1]) or '0', redis.call('GET', KEYS[3]) or '', redis.call('HGETALL', KEYS[2])}`)

// correct adds a drift to the stock, once. KEYS: stock, generation. ARGV: the look's generation, the next one, drift.
var correct = redis.NewScript(`
local generation = redis.call('GET', KEYS[2]) or ''
if generation == ARGV[2] then return 1 end -- the answer was lost
if generation ~= ARGV[1] then return 0 end
redis.call('INCRBY', KEYS[1], ARGV[3])
redis.call('SET', KEYS[2], ARGV[2])
return 1`)

// Reconcile returns the drift, stock in SQL − stock in Redis − units in flight, while tickets are won: above zero are
// units that nobody can buy, below zero promises that SQL cannot keep. With repair it adds the drift to Redis' stock.
// ErrContended: another one was first.
//
// The row's lock stops every COMMIT of the product for one script and one SELECT; Redis goes on. A ticket in flight
// that is sold in SQL already counts there.
//
// Traps: reading one side and then the other, without the lock, finds differences that are none. SET would sell what is
// in flight a second time; adding is right whenever it comes, since no sale and no end changes the drift. The stock in
// Redis may fall below zero: that is a debt, which refused tickets fill. After a failover a consumer may still commit a
// batch that the new master has forgotten: look twice, Claim apart, and repair if both say the same. A repair makes the
// stock right, and brings no lost ticket back. With several writable SQL servers the lock excludes nobody. More than
// some ten thousand tickets in flight do not fit into the SELECT: ask in parts.
func (t Tickets) Reconcile(ctx context.Context, product int64, repair bool) (drift int64, err error) {
	keys := ticketKeys(product)
	generation := "generation:" + keys[0][len("stock:"):]
	var seen string
	err = inTx(ctx, t.DB, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT units FROM stock WHERE product = ? FOR UPDATE", product).Scan(&drift)
		if err != nil {
			return err
		}
		said, err := look.Run(ctx, t.Redis, []string{keys[0], keys[1], generation}).Slice()
		if err != nil {
			return err
		}
		front, err := redis.NewCmdResult(said[0], nil).Int64()
		seen, _ = said[1].(string)
		flight, _ := said[2].([]any)
		if err != nil {
			return err
		}
		inFlight, err := unsold(ctx, tx, flight)
		drift -= front + inFlight
		return err
	})
	if err != nil || !repair || drift == 0 {
		return drift, err
	}
	done, err := correct.Run(ctx, t.Redis, []string{keys[0], generation}, seen, rand.Text(), drift).Int()
	if err == nil && done == 0 {
		err = ErrContended
	}
	return drift, err
}

// unsold adds the units of the tickets in flight that SQL has not sold.
func unsold(ctx context.Context, tx *sql.Tx, flight []any) (units int64, err error) {
	var ids []any
	for i := 0; i+1 < len(flight); i += 2 {
		ids = append(ids, flight[i])
	}
	ends, err := pairs(ctx, tx, "SELECT ticket, outcome FROM received WHERE ticket IN ", ids)
	for i, id := range ids {
		n, bad := redis.NewCmdResult(flight[2*i+1], nil).Int64()
		if id, _ := id.(string); ends[id] != "sold" {
			units += n
		}
		err = errors.Join(err, bad)
	}
	return units, err
}
