-- Releases several locks of one slot, each to its next waiter, as one step.
-- KEYS of each lock: the first four of pass.lua   ARGV[1..2] TTL in ms, channels: ARGV[2..3] of pass.lua   ARGV[3..] the tokens
-- ARGV[#ARGV] how long (ms) the counters outlive their last use
-- Returns for each lock 1, 0 or -1 as release.lua does, and after them how many waiters were skipped.
local all_keys, all, released = KEYS, ARGV, {}
local KEYS, ARGV = {}, {'', all[1], all[2], all[#all]} -- of one lock at a time
-- include pass.lua
for i = 1, #all_keys / 4 do
  for j = 1, 4 do KEYS[j] = all_keys[4 * i - 4 + j] end
  ARGV[1] = all[i + 2]
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    local last = redis.call('GET', KEYS[4])
    released[i] = last == ARGV[1] and 1 or last == 'evicted ' .. ARGV[1] and -1 or 0
  else
    released[i] = 1
    if redis.call('ZCARD', KEYS[2]) == 0 then
      redis.call('RENAME', KEYS[1], KEYS[4]) -- remembered for the rest of its TTL
    else
      redis.call('DEL', KEYS[4]) -- first: see release.lua
      redis.call('SET', KEYS[4], ARGV[1], 'PX', memory)
      hand_over({})
    end
  end
end
released[#released + 1] = skipped
return released
