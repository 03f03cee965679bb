-- Evicts holders, raises the fencing counter above all that they have, and hands the lock over. A holder that has left meanwhile is left
-- alone, and so is the one after it. Sent again it answers the same: a tombstone has the fence of its eviction.
-- KEYS, ARGV[1..3]: see rw_admit.lua; ARGV[1] and ARGV[4..] are the holders' tokens, KEYS[5..#KEYS-1] their tombstones
-- Returns {the raised fence, 0 = nobody was evicted; skipped; the tokens of those evicted}.
-- include rw_admit.lua
keep_queue() -- first: see release.lua
local owner, evicted, tombstones, before, raised, freed = redis.call('GET', KEYS[1]), {}, {}, {}, '0', false
for i = 1, #KEYS - 5 do
  local token = i == 1 and ARGV[1] or ARGV[i + 2]
  if token == owner or redis.call('ZREM', readers, token) == 1 then
    evicted[#evicted + 1], tombstones[#tombstones + 1] = token, KEYS[i + 4]
    freed = freed or token == owner
  else
    local fence = string.match(redis.call('GET', KEYS[i + 4]) or '', '^evicted (%d+)$')
    if fence then before[#before + 1], raised = token, fence end
  end
end
if #evicted == 0 then return {raised, 0, before} end
local fence = reserve(2) -- by two: readers that reserved nothing have the fence after the counter
for i, token in ipairs(evicted) do
  redis.call('SET', tombstones[i], string.format('evicted %.0f', fence), 'PX', memory)
  local channel = channel_of(token)
  if channel then notify(channel, token, 'x', fence) end
end
if freed then redis.call('SET', KEYS[4], 'evicted ' .. owner, 'PX', memory) end
local err = nil
if freed then admit({}) elseif owner then err = admit_writer(owner) end
if err then return err end
return {string.format('%.0f', fence), skipped, evicted}
