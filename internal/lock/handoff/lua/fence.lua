-- Part of the engine's scripts: the fencing counter. KEYS: see pass.lua

local keep, call = 120000, redis.call -- ms; for how long the queue and its tickets outlive their last use, and the counter, less a window

-- reserve reserves so many fencing tokens above all before, and returns the last of them. None is below the server's clock in
-- us: so a fence goes back neither with a counter that was lost nor with a replica that lagged, unless the clock goes back
-- by more than the time since the last grant. The first grant in each window of half a minute extends the counter's life.
local function reserve(fences)
  local t, window = call('TIME'), 30000000
  local last, clock = (call('HGET', KEYS[3], 'fence') or 0) + 0, t[1] * 1000000 + t[2]
  local fence = (last > clock and last or clock) + fences
  call('HSET', KEYS[3], 'fence', fence)
  if math.floor(last / window) ~= math.floor(fence / window) then call('PEXPIRE', KEYS[3], keep) end
  return fence
end
