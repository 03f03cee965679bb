-- Claims an idempotency key on a Redis Cluster, where the claim is in another slot than the keys of the sale.
-- KEYS[1] the claim. ARGV: the owner, an owner whose claim is void ("" = none), the milliseconds to keep the claim (0 = forever), the
-- milliseconds that a claim outlives a refusal.
-- Returns the owner of the claim. If that is another sale of the same product, this one has taken its place, for what is left of its time:
-- whoever found the earlier claim void must not take the key. What is left after a refusal is as good as no claim.
local owner, ms = redis.call('GET', KEYS[1]), ARGV[3]
if owner == ARGV[2] then owner = false end
if owner then
  if owner:match('^%d+') ~= ARGV[1]:match('^%d+') then return owner end
  local left = redis.call('PTTL', KEYS[1])
  if left < 0 then ms = '0' elseif left > tonumber(ARGV[4]) then ms = left else owner = false end
end
redis.call('SET', KEYS[1], ARGV[1], unpack(ms == '0' and {} or {'PX', ms}))
return owner or ARGV[1]
