-- Finds which of many waiters must be polled: those that are no longer in their queue, as one that was granted the lock, and those whose lock
-- nobody holds. It changes nothing.
-- KEYS the lock and the queue of each waiter   ARGV[1] ms   ARGV[2..] the waiters' tokens, in the order of KEYS
-- Returns {time; and for some of the waiters the place, from 1, and after it -1 = poll it, else in how many ms, fewer than ARGV[1], its lock expires}.
local t = redis.call('TIME')
local found = {string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))}
for i = 1, #KEYS / 2 do
  local left = redis.call('PTTL', KEYS[2 * i - 1])
  local ticket = redis.pcall('ZSCORE', KEYS[2 * i], ARGV[i + 1]) -- an error, as of a wrong type, is that key's alone
  if left == -2 or type(ticket) ~= 'string' then left = -1 elseif left < 0 or left >= tonumber(ARGV[1]) then left = nil end
  if left then
    found[#found + 1] = i
    found[#found + 1] = left
  end
end
return found
