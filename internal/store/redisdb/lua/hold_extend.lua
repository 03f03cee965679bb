-- Moves the deadline of a reservation, once and never to an earlier one; ends it if it is overdue.
-- ARGV: 1 the reservation, 2 the replica, 3 how many microseconds from now. Returns 'done' with its JSON and the state before,
-- or 'none'.
local h = find(ARGV[1])
if not h then return {'none'} end
local was = h.state
if overdue(h) then
  expire(ARGV[1], h, ARGV[2])
elseif h.state == 'held' and h.extended_us == '0' then
  h.expires_us, h.extended_us = whole(math.max(now + ARGV[3], tonumber(h.expires_us))), whole(now)
  call('ZADD', KEYS[5], h.expires_us, ARGV[1])
  move(ARGV[1], h, 'held', ARGV[2])
end
return {'done', text, was}
