-- Part of the engine's scripts: the fencing counter. KEYS: see engine_pass.lua; keep is how long (ms) it outlives a grant.

-- begin starts a counter that is new, or was lost, at the server's time in us. That is above all it gave out before, unless
-- the clock went back: a grant reserves sixteen by default, and is at least a round trip after the one before.
local function begin()
  local t = redis.call('TIME')
  return redis.call('HINCRBY', KEYS[3], 'fence', t[1] .. string.format('%06d', t[2]))
end

local function counter()
  local fence = redis.call('HGET', KEYS[3], 'fence')
  if fence then return tonumber(fence) end
  fence = begin()
  redis.call('PEXPIRE', KEYS[3], keep)
  return fence
end

-- take makes token the owner and returns the last fencing token that it reserves.
local function take(token, px)
  local fences = string.match(token, '%.(%d+)%.%d+$')
  local fence = redis.call('HINCRBY', KEYS[3], 'fence', fences)
  if fence == tonumber(fences) then fence = begin() end
  redis.call('PEXPIRE', KEYS[3], keep)
  redis.call('SET', KEYS[1], token, 'PX', px)
  return fence
end
