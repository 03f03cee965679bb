-- Takes a free lock, or enters one again that the caller holds. The lock is a hash: owner -> number of entries.
-- KEYS[1] lock   ARGV[1] TTL in ms   ARGV[2] owner
-- Returns nil when it is the caller's, else the milliseconds until it expires.
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return nil
end
return redis.call('PTTL', KEYS[1])
