-- Claims an idempotency key on a Redis Cluster, where the script of the sale does not reach it.
-- KEYS[1] the claim. ARGV: for what, whose claim is void ("" = nobody's), the milliseconds to keep it (0 = forever).
-- Returns for what it is claimed, by this or another.
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[2] then return owner end
redis.call('SET', KEYS[1], ARGV[1], unpack(ARGV[3] == '0' and {} or {'PX', ARGV[3]}))
return ARGV[1]
