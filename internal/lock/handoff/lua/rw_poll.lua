-- Looks after the waiters of one process and key, in case a message was lost: who has vanished from the queue queues again,
-- and a free gate goes to the first in it.
-- KEYS, ARGV[1..3]: see rw_admit.lua; ARGV[1] and ARGV[4..] are the tokens, KEYS[5..#KEYS-1] their tombstones
-- Returns {those of the tokens that have the gate or are in as readers, by spaces; how many had vanished; PTTL of the gate;
-- time; skipped}.
-- include rw_admit.lua
retain() -- first: see release.lua
local gate, mine, found, at, vanished = redis.call('GET', KEYS[1]), {}, {}, tonumber(now()), 0
local ended = redis.call('MGET', unpack(KEYS, 5, #KEYS - 1))
for i = 1, #KEYS - 5 do
  local token = i == 1 and ARGV[1] or ARGV[i + 2]
  if not ended[i] then
    if token == gate then
      redis.call('PEXPIRE', KEYS[1], ARGV[2])
      found[#found + 1] = token
    elseif tonumber(redis.call('ZSCORE', readers, token) or 0) > at then
      enter(token, ARGV[2])
      found[#found + 1] = token
    else
      mine[token] = true
      if not redis.call('ZSCORE', KEYS[2], token) then
        enqueue(token)
        vanished = vanished + 1
      end
    end
  end
end
if not gate then
  lapse()
  for token in pairs(admit(mine)) do found[#found + 1] = token end
end
return {table.concat(found, ' '), vanished, redis.call('PTTL', KEYS[1]), now(), skipped}
