-- Claims an idempotency key on a Redis Cluster, where the claim is in another slot than the keys of the sale.
-- KEYS[1] the claim. ARGV: the owner, an owner whose claim is void ("" = none), the milliseconds to keep the claim (0 = forever).
-- Returns the owner of the claim: this one or another.
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[2] then return owner end
redis.call('SET', KEYS[1], ARGV[1], unpack(ARGV[3] == '0' and {} or {'PX', ARGV[3]}))
return ARGV[1]
