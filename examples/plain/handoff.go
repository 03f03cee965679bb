package plain

import (
	"context"
	"crypto/rand"

	"github.com/redis/go-redis/v9"
)

// The release makes the first waiter the owner, so that nobody races for the lock. KEYS: lock, queue of its waiters.
var handed = lock{
	acquire: redis.NewScript(`
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  if not redis.call('LPOS', KEYS[2], ARGV[1]) then redis.call('RPUSH', KEYS[2], ARGV[1]) end
  return 2000 -- look again, since a message may be lost
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('LREM', KEYS[2], 0, ARGV[1])
return 0`),
	renew: redis.NewScript(`
return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2]) or 0`),
	release: redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  redis.call('LREM', KEYS[2], 0, ARGV[1])
  return 0
end
redis.call('DEL', KEYS[1])
while true do
  local next = redis.call('LPOP', KEYS[2])
  if not next then return 1 end
  if redis.call('PUBLISH', ARGV[3] .. next, '') > 0 then -- a dead waiter does not listen
    redis.call('SET', KEYS[1], next, 'PX', ARGV[2])
    return 1
  end
end`),
}

// Handoff runs work under a lock whose waiters stand in a queue, of which the release wakes the first. It has no fence
// and no re-entry. The name has a hash tag, as lock:{101}, so that lock and queue are on one node. Pass the context of
// work on: it ends if the lock is lost.
//
// Traps: those of Watchdog. Each waiter subscribes on a connection of its own. A waiter whose process is stopped is
// handed the lock, and keeps it for a TTL. In a cluster PUBLISH counts the subscribers of its own node only, so others
// are passed over and look again after two seconds.
func Handoff(ctx context.Context, c redis.UniversalClient, name string, work func(ctx context.Context) error) error {
	owner, channel := rand.Text(), name+":owner:"
	return hold{handed, c, []string{name, name + ":queue"}, owner, channel, channel + owner}.do(ctx, work)
}
