-- Looks at a product that is sold by tickets, at one moment.
-- KEYS: 1 the count, 2 the initial count, 3 the orders, 4 rules, 5 tickets, 6 the stream. ARGV: 1 the group, 2 how many tickets to return at
-- most.
-- Returns 'unknown'; 'segmented'; or the run in the book, numbers (the count, the initial count, the orders, the changes of holds, whether it
-- was sold by tickets, the units that have passed, those corrected, the generation, the units in flight, the milliseconds that the oldest
-- ticket has waited, the tickets without an entry in the stream, or below zero, entries without a ticket), and the tickets that may have an
-- end, each with its units: all, or where these are too many, those that a consumer was given; false = these are too many as well.
local call, most = redis.call, tonumber(ARGV[2])
local count = call('GET', KEYS[1])
local front = count and (count:match('^limited:%d+:(%-?%d+)$') or count:match('^%-?%d+$'))
if not front then return {count and 'segmented' or 'unknown'} end
local rules = call('HMGET', KEYS[4], 'book', 'changes', 'ticketed', 'passed', 'corrected', 'generation')
local tickets, units, of = call('HGETALL', KEYS[5]), 0, {}
for i = 1, #tickets, 2 do
  units, of[tickets[i]] = units + tickets[i + 1], tickets[i + 1]
end
local first, time, age = call('XRANGE', KEYS[6], '-', '+', 'COUNT', 1)[1], call('TIME'), 0
if first then age = time[1] * 1000 + math.floor(time[2] / 1000) - first[1]:match('^%d+') end
local stuck = #tickets / 2 - call('XLEN', KEYS[6])
if #tickets > 2 * most then
  tickets = {}
  local pending = redis.pcall('XPENDING', KEYS[6], ARGV[1], '-', '+', most + 1) -- an error, with nothing in it, if the group is gone
  for _, p in ipairs(pending) do
    local there = call('XRANGE', KEYS[6], p[1], p[1])[1]
    local id = there and (there[2][4] or ''):match('^{"id":"([^"]+)"')
    if id and of[id] then
      tickets[#tickets + 1] = id
      tickets[#tickets + 1] = of[id]
    end
  end
  if #pending > most then tickets = false end
end
local numbers = {front, call('GET', KEYS[2]) or 0, call('LLEN', KEYS[3]), rules[2] or 0, rules[3] or 0, rules[4] or 0, rules[5] or 0,
  rules[6] or 0, units, age, stuck}
for i, n in ipairs(numbers) do numbers[i] = string.format('%.0f', n + 0) end
return {rules[1] or '', numbers, tickets}
