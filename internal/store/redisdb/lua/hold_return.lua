-- Takes an order back: its units go to the stock, or are written off.
-- ARGV: 1 the order, 2 its position in the list, 3 its row, 4 its quantity, 5 1 = to the stock, 0 = written off, 6 its buyer.
-- Returns the quantity and 1 or 0 of the first answer, as one string; or 'moved', if the row is not there; or 'segmented', about the product.
local kept = call('HGET', KEYS[10], ARGV[1])
if kept then return {kept} end
if call('LINDEX', KEYS[2], ARGV[2]) ~= ARGV[3] then return {'moved'} end
if refuses() then return {'segmented'} end
call('HDEL', KEYS[10], ARGV[1]) -- first: see hold_confirm.lua
call('HSETNX', KEYS[10], ARGV[1], ARGV[4] .. ' ' .. ARGV[5])
allow({quantity = ARGV[4], buyer = ARGV[6] ~= '' and ARGV[6] or nil}) -- he may buy again, whatever becomes of the units
if ARGV[5] == '1' then add(ARGV[4]) end
call('HINCRBY', KEYS[3], 'changes', 1)
return {ARGV[4] .. ' ' .. ARGV[5]}
