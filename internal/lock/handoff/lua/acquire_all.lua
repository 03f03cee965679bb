-- Takes several free locks of one slot, all or none. Sent again with the same tokens it answers the same, and renews.
-- KEYS of each lock: the five of pass.lua   ARGV[1] TTL in ms   ARGV[2..] the tokens   ARGV[#ARGV] how long (ms) the counters outlive
-- their last use
-- Returns the fence of each; nothing if one of the locks is held or waited for, or an attempt has ended.
local call, n, owned, fences = redis.call, #KEYS / 5, 0, {}
for i = 1, n do
  local key, token = 5 * i - 4, ARGV[i + 1]
  if call('GET', KEYS[key]) == token then
    owned = owned + 1
  elseif call('EXISTS', KEYS[key], KEYS[key + 1], KEYS[key + 4]) > 0 or call('GET', KEYS[key + 3]) == token then
    return {}
  end
end
if owned > 0 and owned < n then return {} end -- sent again, and one was lost meanwhile
for i = 1, n do
  local key, hash = KEYS[5 * i - 4], KEYS[5 * i - 2]
  call('SET', key, ARGV[i + 1], 'PX', ARGV[1])
  local fence = owned == n and tonumber(call('HGET', hash, 'fence') or '0') or 0
  if fence == 0 then fence = call('HINCRBY', hash, 'fence', 1) end
  if fence == 1 then -- there was no counter: see start_counter in fence.lua
    local t = call('TIME')
    fence = call('HINCRBY', hash, 'fence', t[1] .. string.format('%06d', t[2]))
  end
  if call('PTTL', hash) < ARGV[#ARGV] / 2 then call('PEXPIRE', hash, ARGV[#ARGV]) end
  fences[i] = fence
end
return fences
