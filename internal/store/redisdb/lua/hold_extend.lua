-- Moves the deadline of a reservation, as often as the product allows and never to an earlier one; ends it if it is overdue.
-- ARGV: 1 the reservation, 2 the replica, 3 how many microseconds from now, 4 the digest of the key ('' = none). Returns 'done' with its
-- JSON, the state before and the deadline of the answer; or 'keyless'; or 'long' with the longest extension; or 'none'.
local h = find(ARGV[1])
if not h then return {'none'} end
local was, request = h.state, ARGV[4]
if overdue(h) then
  expire(ARGV[1], h, ARGV[2])
elseif was == 'held' then
  local rules = call('HMGET', KEYS[3], 'extends', 'longest')
  local times, longest = tonumber(rules[1] or 1), tonumber(rules[2] or 3600000000)
  if times > 1 and request == '' then return {'keyless'} end
  local made = times > 1 and h.events:find('\\t0 ' .. request, 1, true)
  if made then return {'done', text, was, h.events:sub(1, made):match('^.*held held (%d+) '), 'replay'} end
  local _, n = h.events:gsub('\\t0 ', '')
  if n < times then
    if tonumber(ARGV[3]) > longest then return {'long', whole(longest)} end
    h.expires_us, h.extended_us = whole(math.max(now + ARGV[3], tonumber(h.expires_us))), whole(now)
    call('ZADD', KEYS[5], h.expires_us, ARGV[1])
    move(ARGV[1], h, 'held', ARGV[2], '0 ' .. request)
  end
end
return {'done', text, was}
