-- Looks after the waiters of one process and key, in case a message was lost: a waiter that has vanished from the queue is queued again, and
-- a free lock goes to the first in the queue.
-- KEYS, ARGV[1..3]: see pass.lua; ARGV[1] and ARGV[4..] are the tokens, KEYS[5..] their tombstones
-- Returns {the tokens that have ended (evicted: force.lua) and the one that owns the lock, separated by spaces; last fence, or how many had
-- vanished; PTTL of the owner, -1 = it is one of them; time; skipped}.
-- include pass.lua
keep_queue() -- first: see release.lua
local owner, fence, mine, found, vanished = redis.call('GET', KEYS[1]), nil, {}, {}, 0
local ended = redis.call('MGET', unpack(KEYS, 5))
for i = 1, #ended do
  local token = i == 1 and ARGV[1] or ARGV[i + 2]
  mine[token] = not ended[i]
  if ended[i] then
    found[#found + 1] = token
  elseif token ~= owner and not redis.call('ZSCORE', KEYS[2], token) then
    enqueue(token)
    vanished = vanished + 1
  end
end
if not owner then
  check_last_grant()
  owner, fence = hand_over(mine)
end
if mine[owner] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end -- a lease time may be longer
  found[#found + 1] = owner
  -- The time is for the other waiters: a message from before it is of a grant that has ended.
  return {table.concat(found, ' '), fence or counter(), -1, now(), skipped}
end
return {table.concat(found, ' '), vanished, more and soon or redis.call('PTTL', KEYS[1]), now(), skipped}
