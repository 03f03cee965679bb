-- Deletes the older part of the answers to a product's sales, and makes the others the older part, once in the time for
-- which they are kept. KEYS[1] answers, 2 answers-old, 3 when answers were last moved there, in milliseconds. ARGV[1]
-- the milliseconds to keep answers. Returns how many it deleted.
local run, since, time = redis.call('HGET', KEYS[1], ''), tonumber(redis.call('GET', KEYS[3]) or ''), redis.call('TIME')
local now, gone = time[1] * 1000 + math.floor(time[2] / 1000), 0
local due = since and now - since >= tonumber(ARGV[1])
if not run or since and not due then return 0 end
redis.call('DEL', KEYS[3]) -- first: Redis allows it even if memory is full, and then allows the rest of the script
if due then
  gone = redis.call('HLEN', KEYS[2])
  redis.call('UNLINK', KEYS[2])
  if redis.call('HLEN', KEYS[1]) > 1 then
    redis.call('HDEL', KEYS[1], '')
    redis.call('RENAME', KEYS[1], KEYS[2])
    redis.call('HSET', KEYS[1], '', run)
  end
end
redis.call('SET', KEYS[3], string.format('%.0f', now))
return gone
