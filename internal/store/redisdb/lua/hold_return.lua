-- Takes an order or a part of it back: the units go to the stock, or are written off. What came back at once is a field of its own, and the
-- field of the order has the sum, after a 0.
-- ARGV: 1 the order, 2 its position in the list, 3 its row, 4 its quantity, 5 1 = to the stock, 0 = written off, 6 its buyer, 7 how many
-- units (0 = all that are left), 8 with them the digest of the request's key.
-- Returns the quantity and 1 or 0 of the first answer, as one string; or 'moved', if the row is not there; or 'segmented', about the product;
-- or 'beyond' with the units that are left.
local order, field = ARGV[1], ARGV[1] .. ' ' .. ARGV[8]
local kept = call('HGET', KEYS[10], field)
if kept then return {kept} end
if call('LINDEX', KEYS[2], ARGV[2]) ~= ARGV[3] then return {'moved'} end
if refuses() then return {'segmented'} end
local back = tonumber((call('HGET', KEYS[10], order) or '0 0'):match('%d+$'))
local left = ARGV[4] - back
local units = ARGV[7] == '0' and left or tonumber(ARGV[7])
if units > left then return {'beyond', whole(left)} end
local said = whole(units) .. ' ' .. ARGV[5]
if units == 0 then return {said} end
call('HDEL', KEYS[10], field) -- first: see hold_confirm.lua
call('HSET', KEYS[10], field, said, order, '0 ' .. whole(back + units))
allow({quantity = whole(units), buyer = ARGV[6] ~= '' and ARGV[6] or nil}) -- he may buy again, whatever becomes of the units
if ARGV[5] == '1' then add(units) end
call('HINCRBY', KEYS[3], 'changes', 1)
return {said}
