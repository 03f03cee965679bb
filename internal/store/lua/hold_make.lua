-- Holds units. ARGV: 1 the reservation's id, 2 its JSON, 3 for how many microseconds, 4 the replica, 5 the key in base64 ('' = none), and for
-- its claim: 6 the owner, 7 an owner whose claim is void, 8 the milliseconds to keep it.
-- Returns 'held' or 'earlier' (under this key) with the reservation's id and JSON; or 'unknown' or 'segmented', about the product; or 'short'
-- or 'limit' with the stock and what the buyer holds; or 'claimed' with the owner.
local id, key = ARGV[1], ARGV[5]
local owner = key ~= '' and taken(ARGV[6], ARGV[7])
if owner then return {'claimed', owner} end
local earlier = key ~= '' and call('HGET', KEYS[9], key)
local kept = call('HGET', KEYS[4], earlier or id)
if kept then return {earlier and earlier ~= id and 'earlier' or 'held', earlier or id, kept} end -- or the first answer was lost
if refuses() then return {call('EXISTS', KEYS[1]) == 1 and 'segmented' or 'unknown'} end
local h = cjson.decode(ARGV[2])
local why, have = take(id, h) -- its first write is refused if memory is full; from there on nothing may fail
if why then return {why, whole(have), h.buyer and call('HGET', KEYS[8], h.buyer) or ''} end
local rules = call('HMGET', KEYS[3], 'run', 'late')
h.run, h.late, h.left = rules[1] or '0', rules[2] or 'refund', whole(have)
h.state, h.events, h.created_us, h.extended_us, h.expires_us = '', '', whole(now), '0', whole(now + ARGV[3])
move(id, h, 'held', ARGV[4])
call('ZADD', KEYS[5], h.expires_us, id)
if key ~= '' then
  call('HSET', KEYS[9], key, id)
  claim(ARGV[6], ARGV[8])
end
return {'held', id, text}
