-- Leaves the lock once; the last leave deletes it and tells the waiters.
-- KEYS[1] lock   KEYS[2] channel   ARGV[1] TTL in ms   ARGV[2] owner   ARGV[3] entries left
-- Returns 1, or 0 when the lock is not the caller's (any more).
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return 0
end
if ARGV[3] ~= '0' then
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return 1
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], 'released')
return 1
