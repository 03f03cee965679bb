-- What the scripts hold_*.lua share, one of which follows in the same script. Times are microseconds of TIME. A reservation is JSON with
-- numbers as strings, because cjson rounds them to fourteen digits.
-- KEYS: 1 the count, 2 orders, 3 rules, 4 holds, 5 due, 6 payments, 7 buyers, 8 buyer-holds, 9 hold-keys, 10 returned, 11 closed,
-- 12 holds-old, 13 payments-old (see redis_hold.go); last, where a request has a payment or a key, and unless Redis is a cluster, its claim.
-- The last ARGV is for how many microseconds a closed reservation is kept that may be asked for again; 0 = all are kept forever.
local call, time = redis.call, redis.call('TIME')
local now, long, short = time[1] * 1000000 + time[2], tonumber(ARGV[#ARGV]), 3600000000
if long == 0 then long, short = math.huge, math.huge end
local text -- of the reservation that was read or written last
local function whole(n) return string.format('%.0f', n) end

-- Returns the count, nil if there is none, and the limit per buyer; 0 = there is none, and units were held; nil = none were: see limitedMark.
local function counted()
  local text = call('GET', KEYS[1]) or ''
  local limit, count = text:match('^limited:(%d+):(%-?%d+)$')
  return tonumber(count or text), tonumber(limit or '')
end

-- Adds units to the count, which is now stock and has that limit, and marks it: from now on no absolute write may come.
local function add(units, stock, limit)
  call('SET', KEYS[1], 'limited:' .. whole(limit or 0) .. ':' .. whole(stock + units))
end

-- Says whether the product takes no holds: it is segmented, or sold by a mode that writes the count that it has computed (see Order.Way).
local function refuses()
  local stock, limit = counted()
  if not stock or limit then return not stock end
  local rows = (call('LINDEX', KEYS[2], 0) or '') .. (call('LINDEX', KEYS[2], -1) or '')
  return rows:find('"way":"absolute"', 1, true)
end

-- Reads a reservation; nil = there is none. A held one of an earlier run is void: its units went with the run.
local function find(id)
  local present = call('HGET', KEYS[4], id)
  text = present or call('HGET', KEYS[12], id)
  if not text then return end
  local h = cjson.decode(text)
  h.old = not present
  if h.old and h.state == 'held' then
    h.state = 'void'
    text = cjson.encode(h)
  end
  assert(h.state ~= 'held' or select(2, counted()), 'the count is lost') -- before anything is written
  return h
end

local function overdue(h) return h.state == 'held' and now >= tonumber(h.expires_us) end

-- Changes the state of a reservation of this run, and notes that for the judge. One with an order stays as long as
-- that, another that is closed for an hour, or for long if a payment or a key may ask for it again.
local function move(id, h, to, replica)
  h.events = table.concat({h.events .. h.state, to, h.expires_us, whole(now), replica .. '\n'}, ' ')
  h.state, h.changed_us, h.old = to, whole(now), nil
  text = cjson.encode(h)
  call('HSET', KEYS[4], id, text)
  call('HINCRBY', KEYS[3], 'changes', 1)
  if to == 'confirmed' then
    call('ZREM', KEYS[11], id)
  elseif to ~= 'held' then
    call('ZADD', KEYS[11], whole(now + ((h.key or h.late == 'rehold') and long or short)), id)
  end
end

-- Takes units from the stock, and from the buyer's limit if there is one. Returns nil, or why it does not, and how many are left.
local function take(id, h)
  local stock, limit = counted()
  local limited = limit and limit > 0 and h.buyer
  if limited and (call('HGET', KEYS[7], h.buyer) or 0) + h.quantity > limit then return 'limit', 0 end
  if stock < tonumber(h.quantity) then return 'short', stock end
  add('-' .. h.quantity, stock, limit)
  if not limited then return nil, stock - h.quantity end
  call('HINCRBY', KEYS[7], h.buyer, h.quantity)
  call('HSET', KEYS[8], h.buyer, (call('HGET', KEYS[8], h.buyer) or '') .. id .. ' ')
  return nil, stock - h.quantity
end

-- Removes a reservation from the list of those that have units of its buyer's limit; with over only if that is so long.
local function unlist(id, h, over)
  local ids = h.buyer and call('HGET', KEYS[8], h.buyer)
  local from, to = (ids or ''):find(id .. ' ', 1, true)
  if not from or over and #ids < over then return end
  ids = ids:sub(1, from - 1) .. ids:sub(to + 1)
  if ids == '' then call('HDEL', KEYS[8], h.buyer) else call('HSET', KEYS[8], h.buyer, ids) end
end

-- Gives units back to the stock and to the buyer's limit.
local function give(id, h)
  add(h.quantity, counted())
  if not h.buyer or call('HEXISTS', KEYS[7], h.buyer) == 0 then return end
  if call('HINCRBY', KEYS[7], h.buyer, '-' .. h.quantity) <= 0 then call('HDEL', KEYS[7], h.buyer) end
  unlist(id, h)
end

-- Returns the owner of the claim if it is another product than own, and its claim is not void.
local function taken(own, void)
  local owner = KEYS[14] and call('GET', KEYS[14])
  return owner and owner:match('^%d+') ~= own:match('^%d+') and owner ~= void and owner
end

local function claim(own, ms) if KEYS[14] then call('SET', KEYS[14], own, 'PX', ms) end end
