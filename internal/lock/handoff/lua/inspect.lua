-- Describes a lock. It changes nothing.
-- KEYS lock, queue, hash, readers: see rw_admit.lua
-- Returns {the owner's token or ''; its PTTL; how many wait; last fence; {token of a reader, ms until it expires, ...}}.
local t = redis.call('TIME')
local now, readers = t[1] * 1000 + math.floor(t[2] / 1000), {}
local inside = redis.call('ZRANGEBYSCORE', KEYS[4], string.format('(%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1000)
for i = 1, #inside, 2 do
  readers[i] = inside[i]
  readers[i + 1] = string.format('%.0f', inside[i + 1] - now)
end
local owner, fence = redis.call('GET', KEYS[1]) or '', redis.call('HGET', KEYS[3], 'fence') or '0'
return {owner, redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2]), fence, readers}
