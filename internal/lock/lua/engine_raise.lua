-- Raises the counter above a fencing token that the resource has seen, and reserves what follows.
-- KEYS[1] lock   KEYS[2] hash: fence   ARGV[1] token, which must be the owner   ARGV[2] fence seen   ARGV[3] fences to reserve
-- Returns the last fence reserved, 0 when the lock is not the owner's (any more).
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local fence = tonumber(redis.call('HGET', KEYS[2], 'fence'))
if fence <= tonumber(ARGV[2]) + tonumber(ARGV[3]) - 1 then
  fence = tonumber(ARGV[2]) + tonumber(ARGV[3])
  redis.call('HSET', KEYS[2], 'fence', string.format('%.0f', fence))
end
return fence
