-- Removes old orders of a product, moves its answers to answers-old, and adds what it removed to the sums of the purge.
-- KEYS[1] orders, 2 to 5 the hashes of answers (see answers.go), 6 the sums of the purge. ARGV[1] orders created before this time, in
-- microseconds, are old ("" = none is); [2] how many to remove at most; [3] the milliseconds to keep answers (0 = forever); [4] a name
-- for the run if it has none. Returns how many orders, units and answers it removed.
local run, time, gone, units, keys = redis.call('HGET', KEYS[2], ''), redis.call('TIME'), 0, 0, 0
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, row in ipairs(ARGV[1] == '' and {} or redis.call('LRANGE', KEYS[1], 0, ARGV[2] - 1)) do
  local ok, order = pcall(cjson.decode, row)
  if not ok or order.created_us >= tonumber(ARGV[1]) then break end
  gone, units = gone + 1, units + order.quantity
end
local known = redis.call('HMGET', KEYS[6], 'run', 'since')
local since = run and known[1] == run and tonumber(known[2])
local old = since and ARGV[3] ~= '0' and now - since >= tonumber(ARGV[3])
if gone == 0 and not old and (since or redis.call('EXISTS', KEYS[2]) == 0) then return {0, 0, 0} end
redis.call('LTRIM', KEYS[1], gone, -1) -- first: Redis allows it even if memory is full, and then allows the rest of the script
if not run then -- a new run: the other hashes belong to an earlier one
  run = ARGV[4]
  redis.call('UNLINK', KEYS[3], KEYS[4], KEYS[5])
  redis.call('HSET', KEYS[2], '', run)
end
if not since then
  redis.call('DEL', KEYS[6])
  redis.call('HSET', KEYS[6], 'run', run, 'since', now)
end
if old then
  keys = redis.call('HLEN', KEYS[3])
  redis.call('UNLINK', KEYS[3])
  if redis.call('HLEN', KEYS[2]) > 1 then
    redis.call('HDEL', KEYS[2], '')
    redis.call('RENAME', KEYS[2], KEYS[3])
    redis.call('HSET', KEYS[2], '', run)
  end
  redis.call('HSET', KEYS[6], 'since', now)
end
for field, n in pairs({orders = gone, units = units, keys = keys}) do redis.call('HINCRBY', KEYS[6], field, string.format('%.0f', n)) end
return {gone, units, keys}
