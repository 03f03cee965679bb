package plain

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// ReserveRedis holds units for a buyer who pays later. All keys of a product are in one slot, each change is one
// script, and the clock is that of Redis. Before the sale: SET stock:{101} 100, and HSET rules:{101} per_buyer 2 rehold
// 1, where per_buyer is how many units a buyer may hold or have, and rehold says that a payment after the deadline gets
// the units if they are still free.
//
// Traps: a key that expires by itself gives no unit back; a sorted set of deadlines and a sweep do. Where a script ends
// something its first write is a ZREM, which Redis allows even if memory is full; from there on it allows all. A
// failover loses what the replica had not received, so keep the payments in a database too, and reconcile. Redis
// without maxmemory-policy noeviction may evict the stock. Keep payments for longer than the provider repeats them. A
// payment is known to one product only.
type ReserveRedis struct{ Redis redis.UniversalClient }

// keys are the KEYS of all scripts: the stock; the rules; reservations, payments, requests that made reservations and
// units of buyers, each by id; the deadlines of what is held; the orders; the adjustments of
// the stock by key.
func keys(product int64) (all []string) {
	for _, name := range strings.Fields("stock rules reservations payments requests buyers due orders adjustments") {
		all = append(all, fmt.Sprintf("%s:{%d}", name, product))
	}
	return all
}

// script begins with what the scripts share. Numbers in JSON are strings, since cjson keeps fourteen digits.
func script(body string) *redis.Script {
	return redis.NewScript(`
local call, t = redis.call, redis.call('TIME')
local function us(n) return string.format('%.0f', n) end
local now = t[1] * 1000000 + t[2]

local function find(id)
  local h = call('HGET', KEYS[3], id)
  return h and cjson.decode(h)
end

local function keep(h) call('HSET', KEYS[3], h.id, cjson.encode(h)) end

local function move(h, to) -- changes the state, and writes down what it was
  call('ZREM', KEYS[7], h.id)
  table.insert(h.history, table.concat({h.state, to, h.expires, us(now)}, ' '))
  h.state = to
  keep(h)
  if to == 'held' then call('ZADD', KEYS[7], h.expires, h.id) end
end

local function take(h) -- or returns why not
  local limit = tonumber(call('HGET', KEYS[2], 'per_buyer') or 0)
  if h.buyer ~= '' and limit > 0 and (call('HGET', KEYS[6], h.buyer) or 0) + h.quantity > limit then return 'limit' end
  if tonumber(call('GET', KEYS[1]) or 0) < tonumber(h.quantity) then return 'short' end
  call('DECRBY', KEYS[1], h.quantity)
  if h.buyer ~= '' then call('HINCRBY', KEYS[6], h.buyer, h.quantity) end
end

local function give(h, restock)
  if h.buyer ~= '' and call('HINCRBY', KEYS[6], h.buyer, '-' .. h.quantity) <= 0 then call('HDEL', KEYS[6], h.buyer) end
  if restock then call('INCRBY', KEYS[1], h.quantity) end
end

local function close(h, state)
  move(h, state)
  give(h, true)
end

local function current(id) -- what is overdue is ended before anything else
  local h = find(id)
  if h and h.state == 'held' and now >= tonumber(h.expires) then close(h, 'expired') end
  return h
end

local function answer(what, h) return {what, h and cjson.encode(h) or ''} end
` + body)
}

var (
	// ARGV: id, product, quantity, buyer, request, microseconds.
	holdScript = script(`
local made = ARGV[5] ~= '' and call('HGET', KEYS[5], ARGV[5])
local h = find(made or ARGV[1])
if h then return answer('', h) end -- made by this request before, or the answer was lost
h = {id = ARGV[1], product = ARGV[2], quantity = ARGV[3], buyer = ARGV[4], request = ARGV[5], state = '', returned = '',
  expires = us(now + ARGV[6]), extended = '0', rehold = call('HGET', KEYS[2], 'rehold') == '1', history = {}}
local why = take(h)
if why then return answer(why) end
if h.request ~= '' then call('HSET', KEYS[5], h.request, h.id) end
move(h, 'held')
return answer('', h)`)

	// ARGV: id, payment. A payment has one end, whatever is asked for later.
	confirmScript = script(`
local h, paid = current(ARGV[1]), call('HGET', KEYS[4], ARGV[2])
local id, fate = h and h.id or '', 'refund'
if paid then
  local of, was = paid:match('^(%S*) (%a+)')
  return answer(of == id and was or 'reused', h)
end
call('ZREM', KEYS[7], id)
if h and (h.state == 'held' or h.state == 'expired' and h.rehold and not take(h)) then
  fate = 'order'
  move(h, 'confirmed')
  call('RPUSH', KEYS[8], h.id .. ' ' .. h.quantity .. ' ' .. ARGV[2])
end
call('HSET', KEYS[4], ARGV[2], id .. ' ' .. fate .. ' ' .. us(now))
return answer(fate, h)`)

	// ARGV: id.
	cancelScript = script(`
local h = current(ARGV[1])
if h and h.state == 'held' then
  close(h, 'cancelled')
elseif h and h.state == 'expired' and h.rehold then -- a late payment does not revive it
  h.rehold = false
  keep(h)
end
return answer('', h)`)

	// ARGV: id, microseconds from now.
	extendScript = script(`
local h = current(ARGV[1])
if h and h.state == 'held' and h.extended == '0' then
  h.expires, h.extended = us(math.max(now + ARGV[2], tonumber(h.expires))), us(now)
  move(h, 'held')
end
return answer('', h)`)

	// ARGV: id.
	readScript = script(`return answer('', current(ARGV[1]))`)

	// ARGV: id, "stock" or "gone".
	returnScript = script(`
local h = find(ARGV[1])
if not h or h.state ~= 'confirmed' then return answer('no order') end
if h.returned == '' then
  call('ZREM', KEYS[7], h.id)
  h.returned = ARGV[2]
  keep(h)
  give(h, h.returned == 'stock')
end
return answer('', h)`)

	// ARGV: key, units. If INCRBY fails nothing was written, so it is first.
	adjustScript = script(`
local was, stock = call('HGET', KEYS[9], ARGV[1]), call('GET', KEYS[1])
if was then return answer(was:match('%S+') == ARGV[2] and '' or 'reused') end
if not stock or stock + ARGV[2] < 0 then return answer('short') end
call('INCRBY', KEYS[1], ARGV[2])
call('HSET', KEYS[9], ARGV[1], ARGV[2] .. ' ' .. us(now))
return answer('')`)

	// ARGV: how many at most. A reservation that cannot be read is not looked at again, and its id is returned.
	sweepScript = script(`
local due, bad = call('ZRANGEBYSCORE', KEYS[7], '-inf', us(now), 'LIMIT', 0, ARGV[1]), {}
for _, id in ipairs(due) do
  call('ZREM', KEYS[7], id)
  local ok, h = pcall(current, id)
  if not ok or not h then table.insert(bad, id) end
end
return {tostring(#due), table.concat(bad, ' ')}`)
)

// Hold is that of [ReserveSQL].
func (s ReserveRedis) Hold(ctx context.Context, r Reservation, d time.Duration) (made Reservation, err error) {
	if err := r.valid(); err != nil {
		return made, err
	}
	id := fmt.Sprintf("%d-%s", r.Product, rand.Text()) // it tells where the reservation is
	_, made, err = s.run(ctx, holdScript, id, r.Product, r.Quantity, r.Buyer, r.Request, d.Microseconds())
	if err == nil {
		err = made.repeats(r)
	}
	return made, err
}

// Confirm is that of [ReserveSQL].
func (s ReserveRedis) Confirm(ctx context.Context, id, payment string) (r Reservation, refund bool, err error) {
	if payment == "" || len(payment) > 64 {
		return r, false, ErrKey
	}
	what, r, err := s.run(ctx, confirmScript, id, payment)
	return r, what == "refund", err
}

// Cancel is that of [ReserveSQL].
func (s ReserveRedis) Cancel(ctx context.Context, id string) (Reservation, error) {
	return s.one(ctx, cancelScript, id)
}

// Extend is that of [ReserveSQL].
func (s ReserveRedis) Extend(ctx context.Context, id string, d time.Duration) (Reservation, error) {
	return s.one(ctx, extendScript, id, d.Microseconds())
}

// Read is that of [ReserveSQL].
func (s ReserveRedis) Read(ctx context.Context, id string) (Reservation, error) {
	return s.one(ctx, readScript, id)
}

// Return is that of [ReserveSQL].
func (s ReserveRedis) Return(ctx context.Context, id string, restock bool) (Reservation, error) {
	return s.one(ctx, returnScript, id, returned(restock))
}

// Adjust is that of [ReserveSQL].
func (s ReserveRedis) Adjust(ctx context.Context, key string, product, delta int64) error {
	if err := adjustable(key, delta); err != nil {
		return err
	}
	said, err := adjustScript.Run(ctx, s.Redis, keys(product), key, delta).StringSlice()
	if err != nil {
		return err
	}
	return answers[said[0]]
}

// Sweep ends what is overdue of a product. It returns how many that were.
func (s ReserveRedis) Sweep(ctx context.Context, product int64) (n int, err error) {
	for {
		said, failed := sweepScript.Run(ctx, s.Redis, keys(product), 100).StringSlice()
		if failed != nil {
			return n, errors.Join(err, failed)
		}
		some, _ := strconv.Atoi(said[0])
		n += some
		if said[1] != "" {
			err = errors.Join(err, fmt.Errorf("reservations %s cannot be read", said[1]))
		}
		if some < 100 {
			return n, err
		}
	}
}

func (s ReserveRedis) one(ctx context.Context, script *redis.Script, id string, args ...any) (Reservation, error) {
	_, r, err := s.run(ctx, script, id, args...)
	return r, err
}

// answers are those of the scripts that are none about a reservation.
var answers = map[string]error{"short": ErrSoldOut, "limit": ErrLimit, "no order": ErrNoOrder, "reused": ErrOtherSale}

// run runs a script about a reservation, whose id begins with the product.
func (s ReserveRedis) run(ctx context.Context, script *redis.Script, id string, args ...any) (what string,
	r Reservation, err error) {
	begin, _, _ := strings.Cut(id, "-")
	product, err := strconv.ParseInt(begin, 10, 64)
	if err != nil {
		return "", r, ErrNoReservation
	}
	said, err := script.Run(ctx, s.Redis, keys(product), append([]any{id}, args...)...).StringSlice()
	switch {
	case err != nil:
		return "", r, err
	case answers[said[0]] != nil:
		return "", r, answers[said[0]]
	case said[1] == "":
		return said[0], r, ErrNoReservation
	}
	err = json.Unmarshal([]byte(said[1]), &r)
	return said[0], r, err
}
