package plain

import (
	"context"
	"crypto/rand"

	"github.com/redis/go-redis/v9"
)

// These scripts are Redisson's without re-entry: a hash of owners, and a message when it is free. KEYS: lock.
var redisson = lock{
	acquire: redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return math.max(redis.call('PTTL', KEYS[1]), 100)
end
redis.call('HSET', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 0`),
	renew: redis.NewScript(`
return redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 and redis.call('PEXPIRE', KEYS[1], ARGV[2]) or 0`),
	release: redis.NewScript(`
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[3], '0')
return 1`),
}

// Watchdog runs work under the lock that getLock(name) of Redisson takes in Java. The name has a hash tag, as
// lock:{101}, or Redisson names its channel otherwise. Pass the context of work on: it ends if the lock is lost.
//
// Traps: a process that is stopped does not renew, and writes when it wakes up, so the data must refuse that write, or
// a unit is sold twice now and then. A failover of Redis loses the lock. Work that never ends is renewed for ever: give
// it a deadline. To take the lock again within work waits for itself. ErrLost may also mean that the answer to the
// release was lost, and the release repeated.
func Watchdog(ctx context.Context, c redis.UniversalClient, name string, work func(ctx context.Context) error) error {
	channel := "redisson_lock__channel:" + name
	return hold{redisson, c, []string{name}, rand.Text() + ":1", channel, channel}.do(ctx, work)
}
