-- Finds which of many waiters must be polled. It changes nothing.
-- A waiter must be polled if nobody holds its lock, or if it is no longer in its queue, for example because it was granted the lock.
-- KEYS the lock of each waiter, and after them the queues of some of them   ARGV[1] ms   ARGV[2] what begins the tokens of the calling process
-- ARGV[3] how many waiters there are before the first of those whose queues KEYS has   ARGV[4..] the tokens of these
-- Returns the time, and after it three values for some of the waiters: the waiter's place, from 1; -1 = poll it, or the ms until its lock
-- expires, -2 = ARGV[1] or more; the owner's token if it is one of the calling process, else ''.
local t, most, ours, before, queues = redis.call('TIME'), tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), #ARGV - 3
local found, locks, gone = {string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))}, #KEYS - queues, {}
for i = 1, queues do
  gone[before + i] = type(redis.pcall('ZSCORE', KEYS[locks + i], ARGV[i + 3])) ~= 'string' -- an error, such as a wrong type, concerns this key only
end
for i, owner in ipairs(redis.call('MGET', unpack(KEYS, 1, locks))) do -- of a key with a wrong type: nobody
  local left, own = -1, ''
  if owner and not gone[i] then
    left = redis.call('PTTL', KEYS[i])
    if left < 0 or left >= most then left = -2 end
    if string.sub(owner, 1, #ours) == ours then own = owner end
  end
  if left ~= -2 or own ~= '' then
    found[#found + 1] = i
    found[#found + 1] = left
    found[#found + 1] = own
  end
end
return found
