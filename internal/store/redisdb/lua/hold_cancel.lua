-- Ends a reservation that is held and gives its units back, or does so with a part of them.
-- ARGV: 1 the reservation, 2 the replica, 3 how many units (0 = all), 4 with them the digest of the request's key.
-- Returns 'done' with its JSON, the state before and, if the key has done it before, 'replay'; or 'reused' (by another part); or 'beyond'
-- with the units that are left; or 'many'; or 'none'.
local h, units, request = find(ARGV[1]), ARGV[3], ARGV[4]
if not h then return {'none'} end
local was = h.state
if overdue(h) then expire(ARGV[1], h, ARGV[2]) end
local made = request ~= '' and h.events:match('\\t([1-9]%d*) ' .. request)
if made then return {made == units and 'done' or 'reused', text, was, 'replay'} end
if h.state == 'held' then
  local left = h.quantity - units
  local _, changes = h.events:gsub('held held ', '')
  if left < 0 then return {'beyond', h.quantity} end
  call('ZREM', KEYS[11], ARGV[1]) -- first: see hold_confirm.lua
  if units == '0' or left == 0 then
    call('ZREM', KEYS[5], ARGV[1])
    move(ARGV[1], h, 'cancelled', ARGV[2], request ~= '' and units .. ' ' .. request)
    give(ARGV[1], h)
  elseif changes >= 200 then return {'many'}
  else
    h.rest = h.rest:gsub('"quantity":"%d+"', '"quantity":"' .. whole(left) .. '"', 1)
    h.rest = h.rest:gsub('("order":{"product_id":%d+,"quantity":)%d+', '%1' .. whole(left), 1)
    move(ARGV[1], h, 'held', ARGV[2], units .. ' ' .. request)
    call('HINCRBY', KEYS[3], 'held', '-' .. units)
    give(ARGV[1], {quantity = units, buyer = h.buyer})
  end
end
if h.state == 'expired' and h.late == 'rehold' and not h.old then -- a late payment does not revive what was cancelled
  h.rest = h.rest:gsub('^,"late":"rehold"', ',"late":"refund"')
  render(h)
  call('HSET', KEYS[4], ARGV[1], text)
  call('HINCRBY', KEYS[3], 'changes', 1)
end
return {'done', text, was}
