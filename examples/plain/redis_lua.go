package plain

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// sell answers the same to the same key for a day. KEYS: stock, orders, answer. ARGV: quantity, order.
var sell = redis.NewScript(`
local earlier = redis.call('GET', KEYS[3])
if earlier then return tonumber(earlier) end
local left = tonumber(redis.call('GET', KEYS[1]) or '0') - tonumber(ARGV[1])
if left < 0 then return -1 end
redis.call('SET', KEYS[1], left)
redis.call('RPUSH', KEYS[2], ARGV[2])
redis.call('SET', KEYS[3], left, 'EX', 86400)
return left`)

// Lua checks, takes and appends the order in one script, which Redis runs alone; remaining is the stock after it. The
// stock is SET stock:{101} 100 before the sale.
//
// Traps: the keys share a hash tag, or a cluster refuses them. A client that repeats commands by itself needs the key,
// since a lost answer does not mean that nothing happened. A failover loses what the replica had not received: move
// the orders into a database, and reconcile. Redis without maxmemory-policy noeviction may evict the stock. A key
// that comes again with another quantity is answered as the first time, not refused.
func Lua(ctx context.Context, c redis.UniversalClient, key string, product, quantity int64) (remaining int64,
	err error) {
	if quantity < 1 {
		return 0, ErrQuantity
	}
	if key == "" || len(key) > 64 { // without a key all buyers would share one answer
		return 0, ErrKey
	}
	tag := fmt.Sprintf("{%d}", product)
	remaining, err = sell.Run(ctx, c, []string{"stock:" + tag, "orders:" + tag, "answer:" + tag + ":" + key}, quantity,
		fmt.Sprintf("%s %d", key, quantity)).Int64()
	if err == nil && remaining < 0 {
		err = ErrSoldOut
	}
	return remaining, err
}
