-- Puts units back that were taken apart from their ticket. KEYS: 1 the count. ARGV: 1 the units.
local limit, count = (redis.call('GET', KEYS[1]) or ''):match('^limited:(%d+):(%-?%d+)$')
if count then redis.call('SET', KEYS[1], string.format('limited:%s:%.0f', limit, count + ARGV[1])) end
return 1
