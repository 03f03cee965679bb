-- Releases the lock to the next waiter, as one step, and queues for it again if the process has more waiters of its own.
-- KEYS, ARGV[1..3]: see pass.lua   ARGV[4] token to queue with, or ''; KEYS[5] is its tombstone
-- Returns {1 = released (also if sent again), 0 = the token did not own the lock (any more), -1 = it was evicted (force.lua);
-- about ARGV[4]: 1 = it owns the lock, 0 = it is queued, -1 = neither; last fence; PTTL; time; skipped},
-- or 1 alone if nobody waited.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  local last = redis.call('GET', KEYS[4])
  return {last == ARGV[1] and 1 or last == 'evicted ' .. ARGV[1] and -1 or 0, -1, 0, 0, '0', 0}
end
local queue = ARGV[4] ~= '' and redis.call('EXISTS', KEYS[5]) == 0 -- its waiters may have left before this arrived
if not queue and redis.call('ZCARD', KEYS[2]) == 0 then
  redis.call('RENAME', KEYS[1], KEYS[4]) -- remembered for the rest of its TTL
  return 1
end
-- include pass.lua
redis.call('DEL', KEYS[4]) -- a Redis whose memory is full refuses a SET, unless the script has written before
redis.call('SET', KEYS[4], ARGV[1], 'PX', memory)
if not queue then
  hand_over({})
  return {1, -1, 0, 0, '0', skipped}
end
enqueue(ARGV[4])
local token, fence = hand_over({[ARGV[4]] = true})
if token == ARGV[4] then return {1, 1, fence, 0, '0', skipped} end
return {1, 0, 0, more and soon or redis.call('PTTL', KEYS[1]), now(), skipped}
