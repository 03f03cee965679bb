-- Looks after the waiters of one process and key, in case a message was lost: who has vanished from the queue queues again,
-- and a free lock goes to the first in it.
-- KEYS, ARGV[1..3]: see engine_pass.lua; ARGV[1] and ARGV[4..] are the tokens, KEYS[5..] their tombstones
-- Returns {the caller's token that has the lock, or ''; last fence, or how many had vanished; PTTL of the owner; time; skipped}.
-- include pass.lua
local owner, fence, mine, vanished = redis.call('GET', KEYS[1]), nil, {}, 0
local ended = redis.call('MGET', unpack(KEYS, 5))
for i = 1, #ended do
  local token = i == 1 and ARGV[1] or ARGV[i + 2]
  mine[token] = not ended[i]
  if mine[token] and token ~= owner and not redis.call('ZSCORE', KEYS[2], token) then
    enqueue(token)
    vanished = vanished + 1
  end
end
redis.call('PEXPIRE', KEYS[2], keep)
if not owner then owner, fence = pass(mine) end
if mine[owner] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {owner, fence or counter(), 0, '0', skipped}
end
return {'', vanished, redis.call('PTTL', KEYS[1]), now(), skipped}
