-- Adds units to a product while it is sold, or takes free ones, and writes that down under the key.
-- KEYS: those of hold.lua, 13 the initial count, 14 the adjustments, 15 the same by key, then the counts of the segments.
-- ARGV: 1 the key, 2 how many units, 3 the beginning of the adjustment's JSON, 4 1 = only look, 5 how many segments, the first, the caller
-- has locked. Returns 'done' or 'earlier' with the JSON; or 'short' with the stock; 'unknown'; 'absolute'; or 'segmented' with the number of
-- segments, if those given are others, or more must be locked. A count without a mark stays so: redis-decr and redis-watch go on.
local delta, n, counts, sum = tonumber(ARGV[2]), #KEYS - 15, {}, 0
local kept, count = call('HGET', KEYS[15], ARGV[1]), call('GET', KEYS[1])
if kept then return {'earlier', kept} end
if not count then return {'unknown'} end
local split = tonumber(count:match('^segmented:(%d+)$') or '0')
if split ~= n then return {'segmented', split} end
if n == 0 then
  if refuses() then return {'absolute'} end
  sum = stock
end
local mine, m = 0, tonumber(ARGV[5])
for i = 1, n do
  counts[i] = tonumber(call('GET', KEYS[15 + i]))
  sum = sum + counts[i]
  if i <= m then mine = mine + counts[i] end
end
if sum + delta < 0 then return {'short', whole(sum)} end
if ARGV[4] == '1' then return {'done', ARGV[3] .. '}'} end
if n > 0 and (m == 0 or mine + delta < 0) then return {'segmented', split} end
call('HDEL', KEYS[15], ARGV[1]) -- first: see hold_confirm.lua
local left = delta
for round = 1, 2 do -- an even share each; then, of what some lack, all that the others have
  for i = 1, m do
    local share = round == 1 and (delta - (delta % m)) / m + (i <= delta % m and 1 or 0) or left
    share = math.max(share, -counts[i])
    if round == 2 or share * left > 0 then counts[i], left = counts[i] + share, left - share end
  end
end
for i = 1, m do call('SET', KEYS[15 + i], whole(counts[i])) end
if n == 0 then
  if limit then add(ARGV[2]) else call('INCRBY', KEYS[1], ARGV[2]) end
end
local row = table.concat({ARGV[3], ',"initial":', whole(call('INCRBY', KEYS[13], ARGV[2])), ',"stock":', whole(sum + delta),
  ',"at_us":', whole(now), '}'})
call('RPUSH', KEYS[14], row)
call('HSET', KEYS[15], ARGV[1], row)
call('HINCRBY', KEYS[3], 'adjusted', ARGV[2])
return {'done', row}
