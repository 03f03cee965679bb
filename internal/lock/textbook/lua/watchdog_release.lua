-- Leaves the lock once; the last leave deletes it and tells the waiters. The latch remembers the answer to this request, so that the script
-- may be sent twice. PEXPIRE comes first because a full Redis allows it, and then all later writes of the script.
--
-- The channel is not passed as a key, so that the user needs no key permission for it.
-- KEYS[1] lock   KEYS[2] latch
-- ARGV[1] TTL in ms   ARGV[2] owner   ARGV[3] entries left   ARGV[4] how long the latch lives, in ms   ARGV[5] channel
-- Returns 1 when the lock was freed, 0 when entries are left, nil when it is not the caller's (any more).
local before = redis.call('GET', KEYS[2])
if before then
  return tonumber(before)
end
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return nil
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
local freed = 0
if ARGV[3] == '0' then
  freed = 1
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', ARGV[5], '0')
else
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
end
redis.call('SET', KEYS[2], freed, 'PX', ARGV[4])
return freed
