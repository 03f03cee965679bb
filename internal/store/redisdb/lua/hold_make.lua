-- Holds units. ARGV: 1 the reservation's id, 2 the end of its JSON, 3 for how many microseconds (0 = the default), 4 the replica, 5 the key in base64 ('' =
-- none), 6 how many units, 7 the buyer ('' = unknown), and for the key's claim: 8 the owner, 9 an owner whose claim is void, 10 the
-- milliseconds to keep it.
-- Returns 'made' with the time, the deadline, the run, the end of a late payment and the stock left; or 'held' or 'earlier' (under this key)
-- with the reservation's id and JSON; or 'unknown' or 'segmented', about the product; or 'short'
-- or 'limit' or 'long' with the stock, the limit or the longest hold; or 'claimed' with the owner.
local id, key = ARGV[1], ARGV[5]
local owner = key ~= '' and taken(ARGV[8], ARGV[9])
if owner then return {'claimed', owner} end
local earlier = key ~= '' and call('HGET', KEYS[9], key)
local kept = call('HGET', KEYS[4], earlier or id)
if kept then return {earlier and earlier ~= id and 'earlier' or 'held', earlier or id, kept} end -- or the first answer was lost
if refuses() then return {call('EXISTS', KEYS[1]) == 1 and 'segmented' or 'unknown'} end
local h = {quantity = ARGV[6], buyer = ARGV[7] ~= '' and ARGV[7] or nil, key = key}
local rules = call('HMGET', KEYS[3], 'run', 'late', 'longest', 'ticketed')
if rules[4] then return {'segmented'} end -- its orders are in SQL, which knows nothing of a hold
local longest = tonumber(rules[3] or 3600000000)
local micros = ARGV[3] == '0' and math.min(900000000, longest) or tonumber(ARGV[3])
if micros > longest then return {'long', whole(longest)} end
local why, have = take(h) -- its first write is refused if memory is full; from there on nothing may fail
if why then return {why, whole(have)} end
local run, late, left = rules[1] or '0', rules[2] or 'refund', whole(stock)
h.state, h.events, h.extended_us, h.order_id, h.expires_us = '', '', '0', '', whole(now + micros)
h.rest = table.concat({',"late":"', late, '","run":"', run, '","left":"', left, '","created_us":"', whole(now), '"', ARGV[2]})
move(id, h, 'held', ARGV[4])
call('ZADD', KEYS[5], h.expires_us, id)
if key ~= '' then
  call('HSET', KEYS[9], key, id)
  claim(ARGV[8], ARGV[10])
end
return {'made', whole(now), h.expires_us, run, late, left}
