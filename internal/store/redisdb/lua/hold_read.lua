-- Reads a reservation; one that is overdue is ended first, so that what was told stays true. ARGV: 1 the reservation, 2 the replica. Returns
-- 'done' with its JSON and the state before, or 'none'.
local h = find(ARGV[1])
if not h then return {'none'} end
local was = h.state
if overdue(h) then expire(ARGV[1], h, ARGV[2]) end
return {'done', text, was}
