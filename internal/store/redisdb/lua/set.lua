-- Sets keys even if memory is full: Redis checks memory only at a script's first write, and DEL passes the check. After the product's own
-- count begins a new run: no order of the last one is left, and its reservations only until the next. Payments are of no run: they stay.
-- KEYS: those to set; then, after a product's initial count and its own, rules, holds, holds-old, and what else goes with the run: last the
-- adjustments, which begin with the setting, and the same by key.
-- ARGV: 1 how many keys to set, then their values; then the most units of a buyer (0 = no limit), the end of a late payment,
-- the longest hold in microseconds, how often it may be extended, and the run in the book of tickets ('' = there is none).
local call, n = redis.call, tonumber(ARGV[1])
for i = 1, n do
  call('DEL', KEYS[i])
  call('SET', KEYS[i], ARGV[i + 1])
end
if #KEYS == n then return n end
local rules, holds, old, limit, late = KEYS[n + 1], KEYS[n + 2], KEYS[n + 3], ARGV[n + 2], ARGV[n + 3]
local run = call('EXISTS', rules) == 1 and (call('HGET', rules, 'run') or 0) + 1
call('UNLINK', rules, unpack(KEYS, n + 4))
if call('EXISTS', holds) == 1 then
  call('UNLINK', old)
  call('RENAME', holds, old)
  call('PEXPIRE', old, 604800000)
end
if run then call('HSET', rules, 'run', run) end
if limit ~= '0' then call('HSET', rules, 'per_buyer', limit) end
if late ~= 'refund' then call('HSET', rules, 'late', late) end
if ARGV[n + 4] ~= '3600000000' then call('HSET', rules, 'longest', ARGV[n + 4]) end
if ARGV[n + 5] ~= '1' then call('HSET', rules, 'extends', ARGV[n + 5]) end
if ARGV[n + 6] ~= '' then call('HSET', rules, 'book', ARGV[n + 6]) end
local time = call('TIME')
call('RPUSH', KEYS[#KEYS - 1], string.format('{"delta":%s,"initial":%s,"stock":%s,"at_us":%.0f}', ARGV[n], ARGV[n], ARGV[n],
  time[1] * 1000000 + time[2]))
return n
