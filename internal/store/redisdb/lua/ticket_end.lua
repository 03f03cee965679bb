-- Ends tickets whose end is in the book, once each: the hash of those in flight is the token. A second end, a late one, and one of an earlier
-- run do nothing.
-- KEYS: 1 the count, 2 the buyers, 3 rules, 4 tickets, 5 the stream, 6 the tries. ARGV: 1 the group; for each ticket: its entry's id, its own,
-- its units, 1 = they go back, and its buyer.
-- Returns how many ended now. HDEL comes first: Redis checks memory at a script's first write, and HDEL passes the check.
local call, n = redis.call, 0
for i = 2, #ARGV, 5 do
  local entry, id, units, back, buyer = unpack(ARGV, i, i + 4)
  if call('HDEL', KEYS[4], id) == 1 then
    n = n + 1
    call('HDEL', KEYS[6], id)
    call('XACK', KEYS[5], ARGV[1], entry)
    call('XDEL', KEYS[5], entry)
    if back == '1' then
      local limit, count = (call('GET', KEYS[1]) or ''):match('^limited:(%d+):(%-?%d+)$')
      if count then call('SET', KEYS[1], string.format('limited:%s:%.0f', limit, count + units)) end
      if limit ~= '0' and buyer ~= '' and call('HEXISTS', KEYS[2], buyer) == 1 and
        call('HINCRBY', KEYS[2], buyer, '-' .. units) <= 0 then call('HDEL', KEYS[2], buyer) end
    else
      call('HINCRBY', KEYS[3], 'passed', units)
    end
  else
    -- after a failover the id of an entry may have been given to another ticket
    local there = call('XRANGE', KEYS[5], entry, entry)[1]
    local order = there and there[2][4] or ''
    if order:match('^{"id":"([^"]+)"') == id then
      call('XACK', KEYS[5], ARGV[1], entry)
      call('XDEL', KEYS[5], entry)
    end
  end
end
return n
