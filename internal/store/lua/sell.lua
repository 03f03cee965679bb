-- Takes units of one or several products, all or none, appends their orders, and keeps the answer under the request's key.
-- KEYS with an idempotency key: the four hashes of answers.go; then of each product its count and its orders; and last, where one
-- script reaches it, the claim of the key.
-- ARGV[1] the idempotency key, "" = none; of each product the quantity, and its order in two pieces that the count left joins. With a
-- key follow what it is claimed for, whose claim is void, the milliseconds to keep one (0 = for ever), a name for the run if it has
-- none; and two answers, each as the number of its pieces and the pieces, which a count joins: that of a sale, joined by what is left
-- of the first product; and, after the product that it is about (0 = not rendered yet), that of a refusal, by what it has.
-- Returns what is left of the first product; or, as a string, the answer that the key had; or a list: "sold out", "kept" (sold out,
-- and the answer is kept), "unknown" or "segmented", which product, and what it has; "claimed" and for what.
local key, base = ARGV[1], ARGV[1] ~= '' and 4 or 0
local n = math.floor((#KEYS - base) / 2)
local opt, claim, run = 3 * n + 2, KEYS[base + 2 * n + 1]
local function keep(hash, first, count, ms)
  if not run then redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4]) redis.call('HSET', KEYS[1], '', ARGV[opt + 3]) end
  redis.call('HSET', KEYS[hash], key, table.concat(ARGV, string.format('%.0f', count), first + 1, first + ARGV[first]))
  if claim then redis.call('SET', claim, ARGV[opt], unpack(ms == '0' and {} or {'PX', ms})) end
end
if base > 0 then
  local owner = claim and redis.call('GET', claim)
  if owner and owner ~= ARGV[opt] and owner ~= ARGV[opt + 1] then return {'claimed', owner} end
  local found = redis.call('HMGET', KEYS[1], key, '')
  run = found[2]
  for i = 2, run and 4 or 0 do found[1] = found[1] or redis.call('HGET', KEYS[i], key) end
  if found[1] then return found[1] end
end
local left = {}
for i = 1, n do
  local have = redis.call('GET', KEYS[base + 2 * i - 1])
  if not have then return {'unknown', i} end
  local count = tonumber(have)
  if not count then return {'segmented', i} end
  left[i] = count - ARGV[3 * i - 1]
  if left[i] < 0 then
    local refusal = base > 0 and opt + 5 + ARGV[opt + 4]
    if not refusal or tonumber(ARGV[refusal]) ~= i then return {'sold out', i, count} end
    -- A refusal costs no stock, so it may be asked for at will: at most 2 x 10,000 of them are kept, for ten minutes.
    if redis.call('HLEN', KEYS[3]) >= 10000 then redis.call('UNLINK', KEYS[4]) redis.call('RENAME', KEYS[3], KEYS[4]) end
    keep(3, refusal + 1, count, '10000')
    redis.call('PEXPIRE', KEYS[3], 600000)
    return {'kept', i, count}
  end
end
-- From here on nothing fails, so all of it happens: a script is not rolled back. Where memory is full the first write is refused.
for i = 1, n do
  redis.call('RPUSH', KEYS[base + 2 * i], ARGV[3 * i] .. string.format('%.0f', left[i]) .. ARGV[3 * i + 1])
  redis.call('DECRBY', KEYS[base + 2 * i - 1], ARGV[3 * i - 1])
end
if base > 0 then keep(1, opt + 4, left[1], ARGV[opt + 2]) end
return left[1]
