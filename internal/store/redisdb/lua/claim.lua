-- Claims an idempotency key on a Redis Cluster, where the claim is in another slot than the keys of the sale.
-- KEYS[1] the claim. ARGV: the owner, an owner whose claim is void ("" = none), the milliseconds to keep the claim (0 = forever), the
-- milliseconds that a claim outlives a refusal.
-- Returns the owner of the claim. If another sale of the same product owns it, this sale becomes the owner and keeps the expiry. A sale
-- of another product that has found the old claim void then fails to take the key. A claim that a refusal has shortened counts as none.
local owner, ms = redis.call('GET', KEYS[1]), ARGV[3]
if owner == ARGV[2] then owner = false end
if owner then
  if owner:match('^%d+') ~= ARGV[1]:match('^%d+') then return owner end
  local left = redis.call('PTTL', KEYS[1])
  if left < 0 then ms = '0' elseif left > tonumber(ARGV[4]) then ms = left else owner = false end
end
redis.call('SET', KEYS[1], ARGV[1], unpack(ms == '0' and {} or {'PX', ms}))
return owner or ARGV[1]
