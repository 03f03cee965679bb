-- Takes units of one or several products, all or none, appends their orders, and keeps the answer under the request's key.
-- KEYS[1] the answers kept, by key; then of each product its count and its orders.
-- ARGV[1] the idempotency key, "" = none; then of each product the quantity, and its order in two pieces that the count left joins.
-- With a key two answers follow, each as the number of its pieces and the pieces, which a count joins: that of a sale, joined by
-- what is left of the first product; and, after the product that it is about (0 = not rendered yet), that of a refusal, by what it has.
-- Returns what is left of the first product; or, as a string, the answer that the key had; or a list: "sold out", "kept" (sold out,
-- and the answer is kept), "unknown" or "segmented", which product, and what it has.
local n, key = (#KEYS - 1) / 2, ARGV[1]
local function keep(first, count)
  redis.call('HSET', KEYS[1], key, table.concat(ARGV, string.format('%.0f', count), first + 1, first + ARGV[first]))
end

if key ~= '' then
  local answer = redis.call('HGET', KEYS[1], key)
  if answer then return answer end
end
local left = {}
for i = 1, n do
  local have = redis.call('GET', KEYS[2 * i])
  if not have then return {'unknown', i} end
  local count = tonumber(have)
  if not count then return {'segmented', i} end
  left[i] = count - ARGV[3 * i - 1]
  if left[i] < 0 then
    if key == '' then return {'sold out', i, count} end
    local refusal = 3 * n + 3 + ARGV[3 * n + 2]
    if tonumber(ARGV[refusal]) ~= i then return {'sold out', i, count} end
    keep(refusal + 1, count)
    return {'kept', i, count}
  end
end
-- From here on nothing fails, so all of it happens: a script is not rolled back.
for i = 1, n do
  redis.call('RPUSH', KEYS[2 * i + 1], ARGV[3 * i] .. string.format('%.0f', left[i]) .. ARGV[3 * i + 1])
  redis.call('DECRBY', KEYS[2 * i], ARGV[3 * i - 1])
end
if key ~= '' then keep(3 * n + 2, left[1]) end
return left[1]
