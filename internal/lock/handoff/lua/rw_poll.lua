-- Looks after the waiters of one process and key, in case a message was lost: a waiter that has vanished from the queue is queued again, and
-- a free lock goes to the first in the queue.
-- KEYS, ARGV[1..3]: see rw_admit.lua; ARGV[1] and ARGV[4..] are the tokens, KEYS[5..#KEYS-1] their tombstones
-- Returns {those of the tokens that own the write lock, are in as readers, or have ended (evicted: force.lua), by spaces; how many had
-- vanished; PTTL of the write lock; time; skipped}.
-- include rw_admit.lua
keep_queue() -- first: see release.lua
local owner, mine, found, at, vanished = redis.call('GET', KEYS[1]), {}, {}, tonumber(now()), 0
local ended = redis.call('MGET', unpack(KEYS, 5, #KEYS - 1))
for i = 1, #KEYS - 5 do
  local token = i == 1 and ARGV[1] or ARGV[i + 2]
  if ended[i] then
    found[#found + 1] = token
  else
    local expiry = tonumber(redis.call('ZSCORE', readers, token) or 0)
    if token == owner then
      if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end -- a lease time may be longer
      found[#found + 1] = token
    elseif expiry > at then
      if expiry < at + ARGV[2] then add_reader(token, ARGV[2]) end
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
if not owner then
  check_last_grant()
  for token in pairs(admit(mine)) do found[#found + 1] = token end
end
return {table.concat(found, ' '), vanished, more and soon or redis.call('PTTL', KEYS[1]), now(), skipped}
