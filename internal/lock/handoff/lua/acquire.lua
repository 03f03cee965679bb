-- Takes a free lock, or queues for it. Sent again with the same token it answers the same, and renews.
-- KEYS, ARGV[1..3]: see pass.lua   ARGV[4] 1 = queue if the lock is held   ARGV[5] fencing tokens to reserve
-- Returns {1 = the token owns the lock, 0 = it does not, -1 = its attempt has ended; last fence; PTTL of the owner; time; skipped}, or the
-- fence alone if the lock was free and nobody waited.
-- include fence.lua
local released = call('GET', KEYS[4]) == ARGV[1]
if not released and call('EXISTS', KEYS[1], KEYS[2], KEYS[5]) == 0 then
  call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return reserve(ARGV[5])
end
local owner = call('GET', KEYS[1])
if owner ~= ARGV[1] and (released or call('EXISTS', KEYS[5]) == 1) then return {-1, 0, 0, '0', 0} end
-- include pass.lua
if owner == ARGV[1] then
  call('PEXPIRE', KEYS[1], ARGV[2])
  return {1, counter(), 0, '0', 0}
end
if foreign(owner) then return refusal end
if ARGV[4] == '1' then enqueue(ARGV[1]) end
if not owner then
  check_last_grant()
  local token, fence = hand_over({[ARGV[1]] = true})
  if not token and not more then token, fence = ARGV[1], grant(ARGV[1], ARGV[2]) end
  if token == ARGV[1] then return {1, fence, 0, '0', skipped} end
end
return {0, 0, more and soon or call('PTTL', KEYS[1]), now(), skipped}
