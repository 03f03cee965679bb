-- Takes a free lock, or queues for it. Asked again with the same token it answers the same, and renews.
-- KEYS, ARGV[1..3]: see engine_pass.lua   ARGV[4] 1 = queue when it is held   ARGV[5] fencing tokens to reserve
-- Returns {1 = the caller's, 0 = somebody else's, -1 = this token has ended; last fence; PTTL of the owner; time; skipped},
-- or the fence alone where the lock was simply free.
local seen = redis.call('MGET', KEYS[1], KEYS[4], KEYS[5])
local fresh = not seen[3] and seen[2] ~= ARGV[1]
if not seen[1] and fresh and redis.call('ZCARD', KEYS[2]) == 0 then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  local fence = redis.call('HINCRBY', KEYS[3], 'fence', ARGV[5])
  redis.call('PEXPIRE', KEYS[3], 604800000)
  return fence
end
if seen[1] == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {1, tonumber(redis.call('HGET', KEYS[3], 'fence')), 0, '0', 0}
end
if not fresh then return {-1, 0, 0, '0', 0} end
-- include engine_pass.lua
if ARGV[4] == '1' then enqueue(ARGV[1]) end
if not seen[1] then
  local token, fence = pass({[ARGV[1]] = true})
  if not token then token, fence = ARGV[1], take(ARGV[1], ARGV[2]) end
  if token == ARGV[1] then return {1, fence, 0, '0', skipped} end
end
return {0, 0, redis.call('PTTL', KEYS[1]), now(), skipped}
