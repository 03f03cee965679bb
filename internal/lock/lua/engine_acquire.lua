-- Takes a free lock, or queues for it. Asked again with the same token it answers the same, and renews.
-- KEYS, ARGV[1..3]: see engine_pass.lua   ARGV[4] 1 = queue when it is held   ARGV[5] fencing tokens to reserve
-- Returns {1 = the caller's, 0 = somebody else's, -1 = this token has ended; last fence; PTTL of the owner; time; skipped},
-- or the fence alone where the lock was simply free.
local call = redis.call
local released = call('GET', KEYS[4]) == ARGV[1]
if not released and call('EXISTS', KEYS[1], KEYS[2], KEYS[5]) == 0 then
  call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  local fence = call('HINCRBY', KEYS[3], 'fence', ARGV[5])
  if call('PTTL', KEYS[3]) < 518400000 then -- six days: a week again, once a day and not with every lock
    call('PEXPIRE', KEYS[3], 604800000)
  end
  return fence
end
local owner = call('GET', KEYS[1])
if owner == ARGV[1] then
  call('PEXPIRE', KEYS[1], ARGV[2])
  return {1, tonumber(call('HGET', KEYS[3], 'fence')), 0, '0', 0}
end
if released or call('EXISTS', KEYS[5]) == 1 then return {-1, 0, 0, '0', 0} end
-- include engine_pass.lua
if ARGV[4] == '1' then enqueue(ARGV[1]) end
if not owner then
  local token, fence = pass({[ARGV[1]] = true})
  if not token then token, fence = ARGV[1], take(ARGV[1], ARGV[2]) end
  if token == ARGV[1] then return {1, fence, 0, '0', skipped} end
end
return {0, 0, call('PTTL', KEYS[1]), now(), skipped}
