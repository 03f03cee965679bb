-- Raises the counter above a fencing token that the resource has seen, and reserves the fencing tokens after it.
-- KEYS, ARGV[1..3]: see pass.lua; ARGV[1] must be the owner   ARGV[4] fence seen   ARGV[5] fencing tokens to reserve
-- Returns the last fence reserved, 0 if the token does not own the lock (any more).
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
-- include pass.lua
return set_counter(math.max(counter(), ARGV[4] + ARGV[5]))
