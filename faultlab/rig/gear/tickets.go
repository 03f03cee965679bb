package gear

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"lastitem/stack"
)

// inFlight returns the number of tickets that wait for their orders. KEYS: the hash of them, the stream.
const inFlight = `return math.max(redis.call('HLEN', KEYS[1]), redis.call('XLEN', KEYS[2]))`

// overdueEntries makes every entry of the stream that a consumer was given count as given an hour ago, so that the next
// read of another one takes it over. How often it was delivered stays. KEYS: the hash, the stream.
const overdueEntries = `
local given = redis.pcall('XPENDING', KEYS[2], 'shop', '-', '+', 500)
if given.err then return 0 end
for _, e in ipairs(given) do redis.call('XCLAIM', KEYS[2], 'shop', e[2], 0, e[1], 'IDLE', 3600000, 'JUSTID') end
return #given`

// redisNow executes a command on the lane's Redis, of a pair on its master. It bypasses the proxies.
func (s *Set) redisNow(ctx context.Context, words ...string) (string, error) {
	to := s.linkTo(stack.Redis)
	if to == nil {
		return "", errors.New("faultlab: the lane has no Redis")
	}
	addr, password := to.addr, passwordOf(to.url)
	if s.Pair != nil && s.Pair.server == stack.Redis {
		addr, password = s.Pair.master.run.Addr, s.Pair.master.password
	}
	return redisDo(ctx, addr, password, words...)
}

// ofTickets runs a script on the keys of the lane's tickets. It bypasses the proxies.
func (s *Set) ofTickets(ctx context.Context, script string) (int, error) {
	said, err := s.redisNow(ctx, "EVAL", script, "2", s.ofProduct("tickets"), s.ofProduct("stream"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(said)
}

func (s *Set) ofProduct(family string) string {
	return fmt.Sprintf("%s%s:{%d}", s.space(), family, s.Product())
}

// InFlight counts the tickets of the lane's product that wait for their orders.
func (s *Set) InFlight(ctx context.Context) (int, error) { return s.ofTickets(ctx, inFlight) }

// TakeOver lets the next consumer that reads take over all tickets that another one was given.
func (s *Set) TakeOver(ctx context.Context) error {
	_, err := s.ofTickets(ctx, overdueEntries)
	return err
}

// Tried notes that a ticket of the lane's product has been tried alone so often.
func (s *Set) Tried(ctx context.Context, ticket string, times int) error {
	script := fmt.Sprintf("return redis.call('HSET', '%s', '%s', '%d')", s.ofProduct("tries"), ticket, times)
	_, err := s.ofTickets(ctx, script)
	return err
}

// Overwrite sets what Redis has of the lane's product, as a job does that knows of no tickets.
func (s *Set) Overwrite(ctx context.Context, units int64) error {
	_, err := s.redisNow(ctx, "SET", s.ofProduct("stock"), fmt.Sprintf("limited:0:%d", units))
	return err
}

// Refuse makes the lane's database refuse an order; "" = none any more.
func (s *SQL) Refuse(ctx context.Context, order string) error {
	if order == "" {
		return s.exec(ctx, "DROP TRIGGER IF EXISTS refused")
	}
	return s.exec(ctx, "CREATE TRIGGER refused BEFORE INSERT ON orders FOR EACH ROW IF NEW.id = '"+order+
		"' THEN SIGNAL SQLSTATE '45000'; END IF")
}
