-- Lets a reader in past a free gate, or queues. Asked again with the same token it answers the same, and renews.
-- KEYS, ARGV[1..3]: see engine_rw_admit.lua   ARGV[4] 1 = queue when the gate is closed
-- Returns {1 = the reader is in, 0 = it is not, -1 = this token has ended; fence; PTTL of the gate; time; skipped}, or the
-- fence alone where the gate was simply free. The fence is the last one of the writers before.
local seen = redis.call('MGET', KEYS[1], KEYS[5])
local last = redis.call('HGET', KEYS[3], 'fence')
if last and not seen[1] and not seen[2] and redis.call('ZCARD', KEYS[2]) == 0 then
  local t = redis.call('TIME')
  local expiry = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[2]
  redis.call('ZADD', KEYS[#KEYS], string.format('%.0f', expiry), ARGV[1])
  if redis.call('PTTL', KEYS[#KEYS]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[#KEYS], ARGV[2]) end
  return tonumber(last)
end
if seen[2] then return {-1, 0, 0, '0', 0} end
-- include rw_admit.lua
last = counter()
if seen[1] == ARGV[1] then
  enter(ARGV[1], ARGV[2])
  admit({})
  return {1, last, 0, '0', skipped}
end
if tonumber(redis.call('ZSCORE', readers, ARGV[1]) or 0) > tonumber(now()) then
  enter(ARGV[1], ARGV[2])
  -- Who has the gate waits for this reader, and has reserved what is not before it.
  if seen[1] then last = last - string.match(seen[1], '%.(%d+)%.%d+$') end
  return {1, last, 0, '0', 0}
end
if ARGV[4] == '1' then enqueue(ARGV[1]) end
if not seen[1] then
  last = admit({[ARGV[1]] = true})[ARGV[1]]
  if not last and ARGV[4] ~= '1' and redis.call('EXISTS', KEYS[1]) == 0 then
    enter(ARGV[1], ARGV[2])
    last = counter()
  end
  if last then return {1, last, 0, '0', skipped} end
end
return {0, 0, redis.call('PTTL', KEYS[1]), now(), skipped}
