-- Part of the engine's scripts: the fencing counter. KEYS: see pass.lua

local keep = 120000 -- ms; for how long the counter, and the queue with its tickets, outlive their last use

-- highest returns what no fence so far is above: the counter, or the server's clock in us if that is higher. So a fence
-- goes back neither with a counter that was lost nor with a replica that lagged, unless the clock goes back by more
-- than the time since the last grant.
local function highest()
  local t = redis.call('TIME')
  return math.max(redis.call('HGET', KEYS[3], 'fence') or 0, t[1] * 1000000 + t[2])
end

local function set_counter(fence)
  redis.call('HSET', KEYS[3], 'fence', string.format('%.0f', fence))
  redis.call('PEXPIRE', KEYS[3], keep)
  return fence
end

-- reserve reserves so many fencing tokens and returns the last of them.
local function reserve(fences) return set_counter(highest() + fences) end

-- counter returns the last fencing token that was reserved.
local function counter() return tonumber(redis.call('HGET', KEYS[3], 'fence') or highest()) end
