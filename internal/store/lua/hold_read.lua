-- Reads a reservation; one that is overdue is told as expired. ARGV[1] the reservation. Returns 'done' with its JSON, or 'none'.
local h = find(ARGV[1])
if not h then return {'none'} end
if not overdue(h) then return {'done', text} end
h.state = 'expired'
render(h)
return {'done', text}
