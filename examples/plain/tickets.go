package plain

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

// Tickets sells at the speed of Redis, and SQL has the books: Win decides in Redis and answers with a ticket, and
// Consume, in a loop in every process, writes the orders. Reconcile compares both.
//
//	CREATE TABLE stock (product BIGINT PRIMARY KEY, units BIGINT NOT NULL CHECK (units >= 0));
//	CREATE TABLE orders (id VARBINARY(64) PRIMARY KEY, product BIGINT NOT NULL, quantity BIGINT NOT NULL,
//	  request VARBINARY(64) NOT NULL UNIQUE);
//	CREATE TABLE received (ticket VARBINARY(64) PRIMARY KEY, outcome VARCHAR(16) NOT NULL);
//
// Before the sale, SET stock:{101} in Redis to the units in SQL. A ticket ends once: sold; refused, since SQL has too
// little; failed, since the database refuses its order; same, since its key has an order. All but sold go back.
//
// Traps: end a ticket after COMMIT, never before. Its row in received is part of the order's transaction, so that one
// that comes again is known; an inbox in Redis is not. The hash of tickets lets a unit go back once. Never trim the
// stream, and make its group from 0. A failover of Redis loses tickets that were answered: SQL cannot know them. The
// policy must be noeviction.
type Tickets struct {
	DB    *sql.DB
	Redis redis.UniversalClient
	Name  string        // of this process: no other one may have it
	Claim time.Duration // after how long a ticket of a dead process is taken over; longer than COMMIT may take
}

// ErrNoTicket says that a ticket was never issued, or that a failover has lost it.
var ErrNoTicket = errors.New("no such ticket")

// win takes the unit and writes the ticket, both or neither. KEYS: stock, tickets, stream, answer. ARGV: quantity,
// ticket, key.
var win = redis.NewScript(`
local earlier = redis.call('GET', KEYS[4])
if earlier then return earlier end
local left = tonumber(redis.call('GET', KEYS[1]) or '0') - tonumber(ARGV[1])
if left < 0 then return '' end
redis.call('SET', KEYS[1], left)
redis.call('HSET', KEYS[2], ARGV[2], ARGV[1])
redis.call('XADD', KEYS[3], '*', 'ticket', ARGV[2], 'quantity', ARGV[1], 'key', ARGV[3])
redis.call('SET', KEYS[4], ARGV[2], 'EX', 86400)
return ARGV[2]`)

// end ends a ticket whose end is in SQL. A second call does nothing, nor does it touch the entry of another ticket,
// which may have the id after a failover. KEYS: stock, tickets, stream, tries. ARGV: entry, ticket, units that go back.
var end = redis.NewScript(`
if redis.call('HDEL', KEYS[2], ARGV[2]) == 1 then redis.call('INCRBY', KEYS[1], ARGV[3]) end
redis.call('HDEL', KEYS[4], ARGV[2])
local there = redis.call('XRANGE', KEYS[3], ARGV[1], ARGV[1])[1]
if there and there[2][2] == ARGV[2] then
  redis.call('XACK', KEYS[3], 'orders', ARGV[1])
  redis.call('XDEL', KEYS[3], ARGV[1])
end
return 1`)

// ticketKeys returns the keys of a product: stock, tickets in flight, their stream, and how often each was refused.
func ticketKeys(product int64) []string {
	tag := fmt.Sprintf("{%d}", product)
	return []string{"stock:" + tag, "tickets:" + tag, "stream:" + tag, "tries:" + tag}
}

// Win answers with a ticket, which SQL does not know yet: the same to the same key.
func (t Tickets) Win(ctx context.Context, key string, product, quantity int64) (ticket string, err error) {
	if quantity < 1 {
		return "", ErrQuantity
	}
	if key == "" || len(key) > 64 {
		return "", ErrKey
	}
	keys := ticketKeys(product)
	keys[3] = fmt.Sprintf("answer:{%d}:%s", product, key)
	ticket, err = win.Run(ctx, t.Redis, keys, quantity, rand.Text(), key).Text()
	if err == nil && ticket == "" {
		err = ErrSoldOut
	}
	return ticket, err
}

// State is queued, or the end of a ticket. Redis is asked first: the end is in SQL before the ticket leaves Redis.
func (t Tickets) State(ctx context.Context, product int64, ticket string) (state string, err error) {
	queued, err := t.Redis.HExists(ctx, ticketKeys(product)[1], ticket).Result()
	if err != nil || queued {
		return "queued", err
	}
	err = t.DB.QueryRowContext(ctx, "SELECT outcome FROM received WHERE ticket = ?", ticket).Scan(&state)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoTicket
	}
	return state, err
}

// arrival is a ticket that a consumer was given.
type arrival struct {
	entry, ticket, key, outcome string
	units                       int64
}

// Consume writes the orders of some tickets, and returns how many it was given. After an error they come again.
func (t Tickets) Consume(ctx context.Context, product int64) (int, error) {
	batch, err := t.read(ctx, ticketKeys(product)[2])
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	if err = t.commit(ctx, product, batch); !ofTheData(err) {
		return len(batch), err
	}
	err = nil
	for i := range batch { // one of them is refused: the others need not wait for it
		err = errors.Join(err, t.alone(ctx, product, batch[i:i+1]))
	}
	return len(batch), err
}

// read takes over what a dead process was given, or reads what is new.
func (t Tickets) read(ctx context.Context, stream string) (batch []arrival, err error) {
	entries, _, err := t.Redis.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: stream, Group: "orders", Consumer: t.Name,
		MinIdle: t.Claim, Start: "0", Count: 500}).Result()
	if redis.HasErrorPrefix(err, "NOGROUP") { // the first time, or somebody has deleted it
		err = t.Redis.XGroupCreateMkStream(ctx, stream, "orders", "0").Err()
		if redis.HasErrorPrefix(err, "BUSYGROUP") { // another one was first
			err = nil
		}
		return nil, err
	}
	if err == nil && len(entries) == 0 {
		var read []redis.XStream
		read, err = t.Redis.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "orders", Consumer: t.Name,
			Streams: []string{stream, ">"}, Count: 500, Block: -1}).Result()
		if errors.Is(err, redis.Nil) {
			return nil, nil
		}
		for _, s := range read {
			entries = s.Messages
		}
	}
	for _, e := range entries {
		a := arrival{entry: e.ID}
		a.ticket, _ = e.Values["ticket"].(string)
		a.key, _ = e.Values["key"].(string)
		units, _ := e.Values["quantity"].(string)
		a.units, _ = strconv.ParseInt(units, 10, 64)
		batch = append(batch, a)
	}
	return batch, err
}

// commit writes orders and ends in one transaction, and ends the tickets in Redis after it.
func (t Tickets) commit(ctx context.Context, product int64, batch []arrival) error {
	err := inTx(ctx, t.DB, func(tx *sql.Tx) error { return receive(ctx, tx, product, batch) })
	if err != nil {
		return err
	}
	for _, a := range batch {
		back := a.units
		if a.outcome == "sold" {
			back = 0
		}
		if err := end.Run(ctx, t.Redis, ticketKeys(product), a.entry, a.ticket, back).Err(); err != nil {
			return err
		}
	}
	return nil
}

// receive locks the product's row, decides what becomes of each ticket that has no end, and writes it.
func receive(ctx context.Context, tx *sql.Tx, product int64, batch []arrival) error {
	var units, taken int64
	err := tx.QueryRowContext(ctx, "SELECT units FROM stock WHERE product = ? FOR UPDATE", product).Scan(&units)
	if err != nil {
		return err
	}
	var ids, keys []any
	for _, a := range batch {
		ids, keys = append(ids, a.ticket), append(keys, a.key)
	}
	ends, err := pairs(ctx, tx, "SELECT ticket, outcome FROM received WHERE ticket IN ", ids)
	if err != nil {
		return err
	}
	sold, err := pairs(ctx, tx, "SELECT request, id FROM orders WHERE request IN ", keys)
	if err != nil {
		return err
	}
	var orders, received []any
	for i := range batch {
		a := &batch[i]
		if a.outcome = ends[a.ticket]; a.outcome != "" { // it comes again
			continue
		}
		switch {
		case sold[a.key] != "":
			a.outcome = "same"
		case taken+a.units > units:
			a.outcome = "refused"
		default:
			a.outcome, sold[a.key] = "sold", a.ticket
			taken += a.units
			orders = append(orders, a.ticket, product, a.units, a.key)
		}
		received = append(received, a.ticket, a.outcome)
	}
	_, err = tx.ExecContext(ctx, "UPDATE stock SET units = units - ? WHERE product = ?", taken, product)
	if err == nil && taken > 0 {
		//nolint:gosec // only as many placeholders as there are values
		_, err = tx.ExecContext(ctx, "INSERT INTO orders (id, product, quantity, request) VALUES "+
			strings.Repeat("(?, ?, ?, ?),", len(orders)/4-1)+"(?, ?, ?, ?)", orders...)
	}
	if err == nil && len(received) > 0 {
		//nolint:gosec // only as many placeholders as there are values
		_, err = tx.ExecContext(ctx, "INSERT INTO received (ticket, outcome) VALUES "+
			strings.Repeat("(?, ?),", len(received)/2-1)+"(?, ?)", received...)
	}
	return err
}

// pairs reads two columns for some values of the first.
func pairs(ctx context.Context, tx *sql.Tx, query string, of []any) (map[string]string, error) {
	all := map[string]string{}
	if len(of) == 0 {
		return all, nil
	}
	rows, err := tx.QueryContext(ctx, query+"("+strings.Repeat("?,", len(of)-1)+"?)", of...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var a, b string
		if err := rows.Scan(&a, &b); err != nil {
			return nil, err
		}
		all[a] = b
	}
	return all, rows.Err()
}

// alone tries a ticket that may be the one that the database refuses. Refusals are counted, and not deliveries, which a
// slow database raises; after the fifth it is given up, and its row keeps a late COMMIT from selling it.
func (t Tickets) alone(ctx context.Context, product int64, one []arrival) error {
	refused := t.commit(ctx, product, one)
	if !ofTheData(refused) {
		return refused
	}
	tries, err := t.Redis.HIncrBy(ctx, ticketKeys(product)[3], one[0].ticket, 1).Result()
	if err != nil || tries < 5 {
		return errors.Join(refused, err)
	}
	_, err = t.DB.ExecContext(ctx, "INSERT INTO received (ticket, outcome) VALUES (?, 'failed')", one[0].ticket)
	if err != nil && !says(err, 1062) { // duplicate: somebody has committed it meanwhile
		return err
	}
	return t.commit(ctx, product, one)
}

// ofTheData says that the database refused what was written, so that it would refuse it again.
func ofTheData(err error) bool {
	my, ok := errors.AsType[*mysql.MySQLError](err)
	class := ""
	if ok {
		class = string(my.SQLState[:2])
	}
	return class == "22" || class == "23" || class == "45"
}
