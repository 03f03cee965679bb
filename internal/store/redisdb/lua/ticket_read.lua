-- Hands a consumer the next tickets of a product: those that another one has had for too long, else new ones.
-- KEYS: 1 the stream, 2 the tries. ARGV: 1 the group, 2 the consumer, 3 after how many milliseconds a ticket is taken over, 4 how many at most,
-- 5 after how many milliseconds a consumer that has no tickets is forgotten.
-- Returns for each its entry's id, its run, its order, how often it was delivered, and how often it was tried alone.
local call, out = redis.call, {}
if call('EXISTS', KEYS[1]) == 0 then return out end
local function claim() return redis.pcall('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], '0-0', 'COUNT', ARGV[4]) end
local claimed = claim()
if claimed.err and claimed.err:find('NOGROUP', 1, true) then -- from the beginning: what is read again is known to the book
  call('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0')
  claimed = claim()
end
if claimed.err then return claimed end
local entries, delivered = claimed[2], {}
if #entries > 0 then
  local pending = call('XPENDING', KEYS[1], ARGV[1], entries[1][1], entries[#entries][1], #entries * 10, ARGV[2])
  for _, p in ipairs(pending) do delivered[p[1]] = p[4] end
  for _, c in ipairs(call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do -- name, its name, pending, how many, idle, for how long
    if c[4] == 0 and c[6] >= tonumber(ARGV[5]) then call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], c[2]) end
  end
else
  local read = call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', ARGV[4], 'STREAMS', KEYS[1], '>')
  entries = read and read[1][2] or {}
end
for i, e in ipairs(entries) do
  local run, order = '', ''
  for f = 1, #e[2], 2 do
    if e[2][f] == 'run' then run = e[2][f + 1] elseif e[2][f] == 'order' then order = e[2][f + 1] end
  end
  local id = order:match('^{"id":"([^"]+)"')
  out[i] = {e[1], run, order, delivered[e[1]] or 1, id and tonumber(call('HGET', KEYS[2], id) or 0) or 0}
end
return out
