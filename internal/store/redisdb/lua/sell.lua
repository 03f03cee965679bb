-- Takes units of one or several products, all or none, appends their orders, and keeps the answer under the request's key.
-- KEYS: with an idempotency key the four hashes of answers.go; the orders of each product; for a buyer, the buyers of each product; the
-- count of each product; last, with a key and unless Redis is a cluster, the claim of the key.
-- ARGV[1] the idempotency key, "" = none. For each product: the quantity, and the two halves of its order; the remaining count goes between
-- them. With a key: the owner of its claim, which begins with the first product's id, an owner whose claim is void, the milliseconds to keep
-- the claim; then two answers, each as the number of its pieces and the pieces, with a count between them. The first is a sale's, with the
-- count left of the first product; the second is a refusal's, after the number of the product that is sold out (0 = not rendered yet), with
-- that product's count. sell.go puts a line before this one that takes the buyer, if there is one, from the end of ARGV; for a ticket, which
-- is an entry of the stream instead of an order in the list, it takes what that needs from the ends of KEYS and ARGV: see tickets.go.
-- Returns the count left of the first product; or, as a string, the key's stored answer; or a list: "sold out", "kept" (sold out, and the
-- answer is stored), "limit", "unknown", "segmented", "other" (it is not sold by tickets) or "full", with the product's number and its count,
-- for "limit" the limit, for "full" the tickets in flight; or "claimed" with the owner.
local key, base = ARGV[1], ARGV[1] ~= '' and 4 or 0
local n = math.floor((#KEYS - base) / (buyer and 3 or 2))
local counts = base + (buyer and 2 or 1) * n -- the KEYS before the counts
local opt, claim, answer, run, first = 3 * n + 2, KEYS[counts + n + 1], nil, nil, nil
local have, left, limit = call('MGET', unpack(KEYS, counts + 1)), {}, {}
local function join(at, count) return table.concat(ARGV, string.format('%.0f', count), at + 1, at + ARGV[at]) end
if base > 0 then
  local owner = have[n + 1]
  first = ARGV[opt]:match('^%d+')
  if owner and owner:match('^%d+') ~= first and owner ~= ARGV[opt + 1] then return {'claimed', owner} end
  answer, run = find(key, owner or not claim) -- a sale's claim lives as long as its answer, so without a claim answers-old need not be read
  if answer and ticket and ticket.confirm then call('HSET', ticket.rules, 'confirmed', 1) end -- since Redis 7.2 WAIT counts writes only
  if answer then return answer end
end
for i = 1, n do
  local count = tonumber(have[i])
  if not count then
    limit[i], count = (have[i] or ''):match('^limited:(%d+):(%-?%d+)$')
    count = tonumber(count or '')
    if not count then return {have[i] and 'segmented' or 'unknown', i} end
    local has = buyer and limit[i] ~= '0' and (call('HGET', KEYS[base + n + i], buyer) or 0)
    if has and has + ARGV[3 * i - 1] > tonumber(limit[i]) then return {'limit', i, tonumber(limit[i])} end -- units may come back, so it is not kept
  end
  if ticket then
    local rules = call('HMGET', ticket.rules, 'book', 'ticketed', 'changes')
    ticket.book, ticket.first = rules[1], not rules[2]
    local rows = limit[i] and '' or (call('LINDEX', KEYS[base + i], 0) or '') .. (call('LINDEX', KEYS[base + i], -1) or '')
    local apart = ticket.id == '' and (limit[i] or '0') ~= '0' -- it would not look at the limit
    if not ticket.book or rules[3] or apart or rows:find('"way":"absolute"', 1, true) then return {'other', i} end
  end
  left[i] = count - ARGV[3 * i - 1]
  if left[i] < 0 then
    local refusal = base > 0 and not ticket and opt + 4 + ARGV[opt + 3]
    if not refusal or tonumber(ARGV[refusal]) ~= i then return {'sold out', i, count} end
    room()
    keep(KEYS[3], key, join(refusal + 1, count), run, claim, ARGV[opt], '10000')
    return {'kept', i, count}
  end
end
if ticket then
  local n = call('HLEN', ticket.hash)
  if n >= ticket.most then return {'full', 1, n} end
end
-- Redis does not roll a script back, so nothing may fail from here on. If memory is full, the first write is refused and nothing happens.
for i = 1, n do
  local tail = base > 0 and i > 1 and noted(ARGV[3 * i + 1], first, run) or ARGV[3 * i + 1]
  local row = ARGV[3 * i] .. string.format('%.0f', left[i]) .. tail
  if ticket then
    if ticket.id ~= '' then -- else it is sent apart
      call('XADD', ticket.stream, '*', 'run', ticket.book, 'order', row)
      call('HSET', ticket.hash, ticket.id, ARGV[3 * i - 1])
    end
    if ticket.first then call('HSET', ticket.rules, 'ticketed', 1) end -- from now on it takes no holds
    limit[i] = limit[i] or '0' -- the mark keeps away those who write the count absolutely
  else
    call('RPUSH', KEYS[base + i], row)
  end
  if not limit[i] then
    call('DECRBY', KEYS[counts + i], ARGV[3 * i - 1])
  else
    call('SET', KEYS[counts + i], string.format('limited:%s:%.0f', limit[i], left[i]))
    if buyer and limit[i] ~= '0' then call('HINCRBY', KEYS[base + n + i], buyer, ARGV[3 * i - 1]) end
  end
end
if base > 0 then keep(KEYS[1], key, join(opt + 3, left[1]), run, claim, ARGV[opt], ARGV[opt + 2]) end
return left[1]
