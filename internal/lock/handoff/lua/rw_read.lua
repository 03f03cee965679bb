-- Lets a reader in while no writer owns the lock, or queues. Sent again with the same token it answers the same, and renews.
-- KEYS, ARGV[1..3]: see rw_admit.lua   ARGV[4] 1 = queue if the write lock is owned
-- Returns {1 = the reader is in, 0 = it is not, -1 = its attempt has ended; fence; PTTL of the write lock; time; skipped}, or the fence
-- alone if the write lock was free and nobody waited. The fence is not below those of the writers before.
local seen = redis.call('MGET', KEYS[1], KEYS[5])
local owner, ended = seen[1], seen[2]
if not owner and not ended and redis.call('ZCARD', KEYS[2]) == 0 then
  local t = redis.call('TIME')
  local expiry = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[2]
  redis.call('ZADD', KEYS[#KEYS], string.format('%.0f', expiry), ARGV[1])
  if redis.call('PTTL', KEYS[#KEYS]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[#KEYS], ARGV[2]) end
  return math.max(redis.call('HGET', KEYS[3], 'fence') or 0, t[1] * 1000000 + t[2]) -- as highest in pass.lua
end
if ended then return {-1, 0, 0, '0', 0} end
-- include rw_admit.lua
local last = highest()
if owner == ARGV[1] then -- by a message of cancel.lua, which does not tell readers from writers
  add_reader(ARGV[1], ARGV[2])
  admit({})
  return {1, last, 0, '0', skipped}
end
if tonumber(redis.call('ZSCORE', readers, ARGV[1]) or 0) > tonumber(now()) then
  if owner then -- it waits for this reader, and its fencing tokens are above this reader's
    local fences = string.match(owner, '%.(%d+)%.%d+$')
    if not fences then return refusal end
    last = counter() - fences
  end
  add_reader(ARGV[1], ARGV[2])
  return {1, last, 0, '0', 0}
end
if foreign(owner) then return refusal end
if ARGV[4] == '1' then enqueue(ARGV[1]) end
if not owner then
  check_last_grant()
  last = admit({[ARGV[1]] = true})[ARGV[1]]
  if not last and not more and ARGV[4] ~= '1' and redis.call('EXISTS', KEYS[1]) == 0 then
    add_reader(ARGV[1], ARGV[2])
    last = highest()
  end
  if last then return {1, last, 0, '0', skipped} end
end
return {0, 0, more and soon or redis.call('PTTL', KEYS[1]), now(), skipped}
