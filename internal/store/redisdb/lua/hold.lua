-- What the scripts hold_*.lua share, one of which follows in the same script. Times are microseconds of TIME. A reservation is JSON whose
-- first members may change, in the order of render below; numbers are strings. It is read and written as text, since cjson takes longer than
-- all the rest.
-- KEYS: 1 the count, 2 orders, 3 rules, 4 holds, 5 due, 6 payments, 7 buyers, 8 run-payments, 9 hold-keys, 10 returned, 11 closed,
-- 12 holds-old (see reserve.go); last, where a request has a payment or a key, and unless Redis is a cluster, its claim.
-- The last ARGV is for how many microseconds a closed reservation is kept that may be asked for again; 0 = all are kept forever.
local call, time = redis.call, redis.call('TIME')
local now, long, short = time[1] * 1000000 + time[2], tonumber(ARGV[#ARGV]), 3600000000
if long == 0 then long, short = math.huge, math.huge end
local text -- of the reservation that was read or written last
local stock, limit -- the count, nil if there is none, and the limit per buyer, if there is one: see counted
local function whole(n) return string.format('%.0f', n) end

-- Reads the count, once, and returns it. limit is 0 if units were held and there is none, and nil if none were held: see limitedMark.
local function counted()
  if stock then return stock end
  local kept = call('GET', KEYS[1]) or ''
  stock = tonumber(kept)
  if not stock then
    limit, stock = kept:match('^limited:(%d+):(%-?%d+)$')
    limit, stock = tonumber(limit or ''), tonumber(stock or '')
  end
  return stock
end

-- Adds units to the count, and marks it: from now on no absolute write may come.
local function add(units)
  stock = counted() + units
  call('SET', KEYS[1], 'limited:' .. whole(limit or 0) .. ':' .. whole(stock))
end

-- Says whether the product takes no holds: it is segmented, or sold by a mode that writes the count that it has computed (see Order.Way).
local function refuses()
  if not counted() or limit then return not stock end
  local rows = (call('LINDEX', KEYS[2], 0) or '') .. (call('LINDEX', KEYS[2], -1) or '')
  return rows:find('"way":"absolute"', 1, true)
end

local function render(h)
  text = table.concat({'{"state":"', h.state, '","expires_us":"', h.expires_us, '","extended_us":"', h.extended_us, '","changed_us":"',
    h.changed_us, '","order_id":"', h.order_id, '","events":"', h.events, '"', h.rest})
end

-- Reads a reservation; nil = there is none. A held one of an earlier run is void: its units went with the run.
local function find(id)
  local present = call('HGET', KEYS[4], id)
  text = present or call('HGET', KEYS[12], id)
  if not text then return end
  local h = {old = not present}
  h.state, h.expires_us, h.extended_us, h.changed_us, h.order_id, h.events, h.rest = text:match('^{"state":"(%a+)","expires_us":"(%d+)",' ..
    '"extended_us":"(%d+)","changed_us":"(%d+)","order_id":"([^"]*)","events":"([^"]*)"(.*)$')
  h.late, h.quantity, h.key, h.order = h.rest:match('"late":"(%a+)".-"quantity":"(%d+)".-"key":"([^"]*)".-"order":{(.*)}}$')
  local buyer = h.order:match('"buyer":(".*")$')
  h.buyer = buyer and cjson.decode('[' .. buyer .. ']')[1]
  if h.old and h.state == 'held' then
    h.state = 'void'
    render(h)
  end
  assert(h.state ~= 'held' or counted() and limit, 'the count is lost') -- before anything is written
  return h
end

local function overdue(h) return h.state == 'held' and now >= tonumber(h.expires_us) end

-- Changes the state of a reservation of this run, and notes that for the judge, with what else there is to note; the replica is escaped as
-- in JSON. One with an order stays as
-- long as that, another that is closed for an hour, or for long if a payment or a key may ask for it again.
local function move(id, h, to, replica, more)
  local was = h.state
  h.events = table.concat({h.events .. was, to, h.expires_us, whole(now), replica .. '\\t' .. (more or '') .. '\\n'}, ' ')
  h.state, h.changed_us, h.old = to, whole(now), nil
  render(h)
  call('HSET', KEYS[4], id, text)
  call('HINCRBY', KEYS[3], 'changes', 1)
  if was ~= to and (was == 'held' or to == 'held') then call('HINCRBY', KEYS[3], 'held', (to == 'held' and '' or '-') .. h.quantity) end
  if to == 'confirmed' then
    if was ~= 'held' then call('ZREM', KEYS[11], id) end
  elseif to ~= 'held' then
    call('ZADD', KEYS[11], whole(now + ((h.key ~= '' or h.late == 'rehold') and long or short)), id)
  end
end

-- Takes units from the stock, and from the buyer's limit if there is one. Otherwise returns why not, and how many there are.
local function take(h)
  counted()
  local limited = (limit or 0) > 0 and h.buyer
  if limited and (call('HGET', KEYS[7], h.buyer) or 0) + h.quantity > limit then return 'limit', limit end
  if stock < tonumber(h.quantity) then return 'short', stock end
  add('-' .. h.quantity)
  if limited then call('HINCRBY', KEYS[7], h.buyer, h.quantity) end
end

-- Gives units back to the buyer's limit.
local function allow(h)
  if not h.buyer or call('HEXISTS', KEYS[7], h.buyer) == 0 then return end
  if call('HINCRBY', KEYS[7], h.buyer, '-' .. h.quantity) <= 0 then call('HDEL', KEYS[7], h.buyer) end
end

-- Gives units back to the stock and to the buyer's limit.
local function give(_, h)
  add(h.quantity)
  allow(h)
end

-- Ends a reservation that is overdue.
local function expire(id, h, replica)
  call('ZREM', KEYS[5], id) -- first: see hold_confirm.lua
  move(id, h, 'expired', replica)
  give(id, h)
end

-- Returns the owner of the claim if it is another product than own, and its claim is not void.
local function taken(own, void)
  local owner = KEYS[13] and call('GET', KEYS[13])
  return owner and owner:match('^%d+') ~= own:match('^%d+') and owner ~= void and owner
end

local function claim(own, ms) if KEYS[13] then call('SET', KEYS[13], own, unpack(ms == '0' and {} or {'PX', ms})) end end
