-- Ends a reservation that is held, and gives its units back. ARGV: 1 the reservation, 2 the replica. Returns 'done' with its JSON
-- and the state before, or 'none'.
local h = find(ARGV[1])
if not h then return {'none'} end
local was = h.state
if was == 'held' then
  call('ZREM', KEYS[5], ARGV[1]) -- first: see hold_confirm.lua
  move(ARGV[1], h, overdue(h) and 'expired' or 'cancelled', ARGV[2])
  give(ARGV[1], h)
end
return {'done', text, was}
