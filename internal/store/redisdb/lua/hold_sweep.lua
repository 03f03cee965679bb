-- Ends overdue reservations, and deletes closed ones that nobody can ask for any more. ARGV: 1 how many at most, 2 the replica.
-- Returns how many were overdue, how many it has deleted, the modes of those that it has ended, and those of them that could not be read;
-- they are not looked at again.
local due = call('ZRANGEBYSCORE', KEYS[5], '-inf', whole(now), 'LIMIT', 0, ARGV[1])
local closed = call('ZRANGEBYSCORE', KEYS[11], '-inf', whole(now), 'LIMIT', 0, ARGV[1])
local reply = {#due, #closed, {}}
assert(#due == 0 or counted() and limit, 'the count is lost')
for _, id in ipairs(due) do
  call('ZREM', KEYS[5], id)
  local ok, h = pcall(find, id)
  if not ok or not h then
    reply[#reply + 1] = id
    local units = (call('HGET', KEYS[4], id) or ''):match('"quantity":"(%d+)"')
    if units then call('HINCRBY', KEYS[3], 'held', '-' .. units) end -- nobody holds them
  elseif overdue(h) then
    move(id, h, 'expired', ARGV[2])
    give(id, h)
    table.insert(reply[3], h.order:match('"mode":"([^"]*)"'))
  end
end
for _, gone in ipairs(closed) do
  call('ZREM', KEYS[11], gone)
  call('HINCRBY', KEYS[3], 'changes', 1)
  local ok, h = pcall(find, gone)
  if ok and h and h.key ~= '' then call('HDEL', KEYS[9], h.key) end
  call('HDEL', KEYS[4], gone)
end
return reply
