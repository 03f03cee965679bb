-- Takes a free lock, or enters one again that the caller holds. The lock is a hash: owner -> number of entries. The caller
-- says how many entries it has with this one, so that the script may be sent twice.
-- KEYS[1] lock   ARGV[1] TTL in ms   ARGV[2] owner   ARGV[3] entries, 1 unless it enters again
-- Returns nil when it is the caller's, else the milliseconds until it expires.
local free = redis.call('EXISTS', KEYS[1]) == 0
if (free and ARGV[3] == '1') or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return nil
end
return redis.call('PTTL', KEYS[1])
