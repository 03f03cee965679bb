-- Leaves the lock once; the last leave deletes it and tells the waiters.
-- KEYS[1] lock   KEYS[2] channel   ARGV[1] TTL in ms   ARGV[2] owner
-- Returns -1 when the lock is not the caller's (any more), else the number of entries left.
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return -1
end
local entries = redis.call('HINCRBY', KEYS[1], ARGV[2], -1)
if entries > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return entries
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], 'released')
return 0
