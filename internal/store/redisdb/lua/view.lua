-- Reads a product at one moment, however much is held of it. It is a script and not a MULTI because a Redis whose memory is full refuses to
-- queue even reads.
-- KEYS[1] the count, 2 the initial count, 3 the orders, 4 due, 5 holds, 6 returned, 7 rules, 8 adjustments, 9 tickets, then the segments.
-- ARGV[1] how many orders to read, from the first on, 2 how many adjustments, the newest. Returns the count, the initial count, the number
-- of orders, the orders, the counts of the segments, the last order, and a list: the units that are held, those of them that are overdue,
-- written off, and put back; the time in microseconds, the run, the limit per buyer, the number of changes, how often a reservation may be
-- extended, the units that went as tickets, and how many tickets are in flight; and another: the number of adjustments, their sum, and the adjustments.
local call, counts = redis.call, {}
for i = 10, #KEYS do counts[i - 9] = call('GET', KEYS[i]) end
local time = call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
local rules = call('HMGET', KEYS[7], 'run', 'per_buyer', 'changes', 'extends', 'held', 'adjusted', 'passed', 'corrected')
local ids, sums = call('ZRANGEBYSCORE', KEYS[4], '-inf', now), {tonumber(rules[5] or 0), 0, 0, 0}
for from = 1, #ids, 1000 do
  for _, h in ipairs(call('HMGET', KEYS[5], unpack(ids, from, math.min(from + 999, #ids)))) do
    sums[2] = sums[2] + tonumber(h and h:match('"quantity":"(%d+)"') or 0)
  end
end
for _, r in ipairs(call('HVALS', KEYS[6])) do
  local at = r:sub(-1) == '1' and 4 or 3
  sums[at] = sums[at] + r:match('^%d+')
end
local set = tonumber((call('LINDEX', KEYS[8], 0) or ''):match('"delta":(%d+)') or 0)
local passed = tonumber(rules[7] or 0) - (rules[8] or 0) -- a correction took the units of those whose end is not known here
for _, units in ipairs(call('HVALS', KEYS[9])) do passed = passed + units end
for i = 1, 4 do sums[i] = string.format('%.0f', sums[i]) end
return {
  call('GET', KEYS[1]), call('GET', KEYS[2]), call('LLEN', KEYS[3]),
  ARGV[1] == '0' and {} or call('LRANGE', KEYS[3], 0, ARGV[1] - 1), counts, call('LINDEX', KEYS[3], -1),
  {sums[1], sums[2], sums[3], sums[4], now, rules[1] or '0', rules[2] or '0', rules[3] or '0', rules[4] or '1',
    string.format('%.0f', passed), tostring(call('HLEN', KEYS[9]))},
  {tostring(call('LLEN', KEYS[8])), string.format('%.0f', set + (rules[6] or 0)), call('LRANGE', KEYS[8], '-' .. ARGV[2], -1)},
}
