-- Raises the counter above a fencing token that the resource has seen, and reserves the fencing tokens after it.
-- KEYS, ARGV[1..3]: see pass.lua; ARGV[1] must be the owner   ARGV[4] fence seen   ARGV[5] fencing tokens to reserve
-- Returns the last fence reserved, 0 if the token does not own the lock (any more).
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
-- include pass.lua
local fence = math.max(counter(), ARGV[4] + ARGV[5])
redis.call('HSET', KEYS[3], 'fence', string.format('%.0f', fence))
redis.call('PEXPIRE', KEYS[3], keep)
return fence
