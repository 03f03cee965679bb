-- Ends a reservation that is held, and gives its units back. ARGV: 1 the reservation, 2 the replica. Returns 'done' with its JSON
-- and the state before, or 'none'.
local h = find(ARGV[1])
if not h then return {'none'} end
local was = h.state
if overdue(h) then
  expire(ARGV[1], h, ARGV[2])
elseif was == 'held' then
  call('ZREM', KEYS[5], ARGV[1]) -- first: see hold_confirm.lua
  move(ARGV[1], h, 'cancelled', ARGV[2])
  give(ARGV[1], h)
end
if h.state == 'expired' and h.late == 'rehold' and not h.old then -- a late payment does not revive what was cancelled
  h.rest = h.rest:gsub('^,"late":"rehold"', ',"late":"refund"')
  render(h)
  call('HSET', KEYS[4], ARGV[1], text)
  call('HINCRBY', KEYS[3], 'changes', 1)
end
return {'done', text, was}
