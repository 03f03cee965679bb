-- Evicts holders, raises the fencing counter above all that they have, and hands the lock over. A holder that has left meanwhile is left
-- alone, and so is the one after it.
-- KEYS, ARGV[1..3]: see rw_admit.lua; ARGV[1] and ARGV[4..] are the holders' tokens, KEYS[5..#KEYS-1] their tombstones
-- Returns {the raised fence, 0 = nobody was evicted; skipped; the tokens of those evicted}.
-- include rw_admit.lua
keep_queue() -- first: see release.lua
local owner, evicted, freed = redis.call('GET', KEYS[1]), {}, false
for i = 1, #KEYS - 5 do
  local token = i == 1 and ARGV[1] or ARGV[i + 2]
  if token == owner or redis.call('ZREM', readers, token) == 1 then
    evicted[#evicted + 1] = token
    redis.call('SET', KEYS[i + 4], 'evicted', 'PX', memory)
  end
  if token == owner then
    redis.call('SET', KEYS[4], 'evicted ' .. token, 'PX', memory)
    freed = true
  end
end
if #evicted == 0 then return {'0', 0, evicted} end
counter()
local fence = redis.call('HINCRBY', KEYS[3], 'fence', 1)
for _, token in ipairs(evicted) do
  local channel = channel_of(token)
  if channel then notify(channel, token, 'x', fence) end
end
local err = nil
if freed then admit({}) elseif owner then err = admit_writer(owner) end
if err then return err end
return {string.format('%.0f', fence), skipped, evicted}
