-- Part of the engine's scripts: the fencing counter. KEYS: see pass.lua

local keep = 120000 -- ms; for how long the queue and its tickets outlive their last use; the counter: for half of it at least

-- reserve reserves so many fencing tokens above all before, and returns the last of them. None is below the server's clock in
-- us: so a fence goes back neither with a counter that was lost nor with a replica that lagged, unless the clock goes back
-- by more than the time since the last grant.
local function reserve(fences)
  local t = redis.call('TIME')
  local last, clock = (redis.call('HGET', KEYS[3], 'fence') or 0) + 0, t[1] * 1000000 + t[2]
  local fence = (last > clock and last or clock) + fences
  redis.call('HSET', KEYS[3], 'fence', fence)
  if redis.call('PTTL', KEYS[3]) < keep / 2 then redis.call('PEXPIRE', KEYS[3], keep) end
  return fence
end
