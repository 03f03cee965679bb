-- Finds which of many waiters must be polled. It changes nothing.
-- A waiter must be polled if it is no longer in its queue, for example because it was granted the lock, or if nobody holds its lock.
-- KEYS the lock and the queue of each waiter   ARGV[1] ms   ARGV[2..] the waiters' tokens, in the order of KEYS
-- Returns the time, and after it a pair for some of the waiters: the waiter's place, from 1, and -1 = poll it, or the ms until its lock
-- expires, fewer than ARGV[1].
local t = redis.call('TIME')
local found = {string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))}
for i = 1, #KEYS / 2 do
  local left = redis.call('PTTL', KEYS[2 * i - 1])
  local ticket = redis.pcall('ZSCORE', KEYS[2 * i], ARGV[i + 1]) -- an error, such as a wrong type, concerns this key only
  if left == -2 or type(ticket) ~= 'string' then left = -1 elseif left < 0 or left >= tonumber(ARGV[1]) then left = nil end
  if left then
    found[#found + 1] = i
    found[#found + 1] = left
  end
end
return found
