-- Sets keys even if memory is full: Redis checks memory only at a script's first write, and DEL passes the check. After the product's own
-- count begins a new run: no order and no reservation of the last one is left, except what a late payment asks for.
-- KEYS: those to set; then, after a product's own count, rules, holds, holds-old, payments, payments-old, and what else goes with the run.
-- ARGV: 1 how many keys to set, then their values; then the most units of a buyer (0 = no limit), and the end of a late payment.
local call, n = redis.call, tonumber(ARGV[1])
for i = 1, n do
  call('DEL', KEYS[i])
  call('SET', KEYS[i], ARGV[i + 1])
end
if #KEYS == n then return n end
local rules, limit, late = KEYS[n + 1], ARGV[n + 2], ARGV[n + 3]
local run = call('EXISTS', rules) == 1 and (call('HGET', rules, 'run') or 0) + 1
call('UNLINK', rules, unpack(KEYS, n + 6))
for i = n + 2, n + 4, 2 do
  if call('EXISTS', KEYS[i]) == 1 then
    -- those of the runs before stay too, unless they are so many that a copy would hold up everybody
    local before = call('HLEN', KEYS[i + 1]) <= 5000 and call('HGETALL', KEYS[i + 1]) or {}
    for at = 1, #before, 2 do call('HSETNX', KEYS[i], before[at], before[at + 1]) end
    call('RENAME', KEYS[i], KEYS[i + 1])
    call('PEXPIRE', KEYS[i + 1], 604800000)
  end
end
if run then call('HSET', rules, 'run', run) end
if limit ~= '0' then call('HSET', rules, 'per_buyer', limit) end
if late ~= 'refund' then call('HSET', rules, 'late', late) end
return n
