-- Corrects the count of a product that is sold by tickets, once: by what a look has found, which no sale and no end changes. It may go below
-- zero: that is a debt, which refused tickets fill when they come back. To stop at zero would promise the same units again.
-- KEYS: 1 the count, 2 rules. ARGV: the look's 1 run and 2 generation, 3 the generation of the correction, 4 the units that have leaked, 5
-- those that are sold in the book and unknown here.
-- Returns 1; or 0: somebody else was first, or the stock was set.
local call = redis.call
local rules = call('HMGET', KEYS[2], 'book', 'generation', 'corrected')
local limit, count = (call('GET', KEYS[1]) or ''):match('^limited:(%d+):(%-?%d+)$')
count = count or (call('GET', KEYS[1]) or ''):match('^%-?%d+$')
if rules[1] ~= ARGV[1] or not count then return 0 end
if rules[2] == ARGV[3] then return 1 end
if (rules[2] or '0') ~= ARGV[2] then return 0 end
call('HDEL', KEYS[2], 'corrected') -- first: Redis checks memory at a script's first write, and HDEL passes the check
call('HSET', KEYS[2], 'corrected', string.format('%.0f', (rules[3] or 0) - ARGV[5]), 'generation', ARGV[3])
call('SET', KEYS[1], string.format('limited:%s:%.0f', limit or '0', count + ARGV[4] - ARGV[5]))
return 1
