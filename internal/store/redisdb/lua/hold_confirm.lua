-- Makes an order of a reservation, or says that its payment goes back; each payment has one end, which is kept.
-- ARGV: 1 the reservation, 2 the replica, 3 the payment, 4 the order, 5 and 6 its JSON before and after what the reservation knows, and for
-- the payment's claim: 7 the owner, 8 an owner whose claim is void, 9 the milliseconds to keep it (0 = forever).
-- Returns 'done' or 'replay' with the reservation's JSON, the order ('' = refund) and, if it was done now, the state before; or 'none'; 'reused'; 'claimed' with the owner.
local id, replica, payment, order = ARGV[1], ARGV[2], ARGV[3], ''
local owner = taken(ARGV[7], ARGV[8])
if owner then return {'claimed', owner} end
local h, paid = find(id), call('HGET', KEYS[6], payment)
if paid then
  local of, made = paid:match('^(%S+) (%S*) ')
  if of ~= id then return {'reused'} end
  return {'replay', text or '', made}
end
if not h then
  claim('refunded', ARGV[9])
  return {'none'}
end
call('ZREM', KEYS[5], id) -- first: Redis allows it even if memory is full, and then allows the rest of the script
local fresh, old, was = overdue(h), h.old, h.state
if fresh then move(id, h, 'expired', replica) end
-- no payment that was refunded may become an order later: so none does once the first refund may be forgotten
local late = h.state == 'expired' and h.late == 'rehold' and not old and now < h.expires_us + long
if h.state == 'held' or late and (fresh or not take(h)) then
  order, h.order_id = ARGV[4], ARGV[4]
  move(id, h, 'confirmed', replica)
  call('RPUSH', KEYS[2], ARGV[5] .. ',' .. h.order .. ARGV[6] .. whole(now) .. '}')
elseif fresh then give(id, h) end
local ended = table.concat({id, order, whole(now)}, ' ')
call('HSET', KEYS[6], payment, ended)
if not old then call('HSET', KEYS[8], payment, ended) end -- for the judge of the run
if not old and order == '' then
  call('HINCRBY', KEYS[3], 'changes', 1)
  if h.state ~= 'confirmed' then call('ZADD', KEYS[11], whole(now + long), id) end
end
claim(ARGV[7], ARGV[9])
return {'done', text, order, was}
