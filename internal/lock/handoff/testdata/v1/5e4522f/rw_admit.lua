-- Part of the read-write scripts: how a gate that is left goes on, to the writer who is first, or past the readers who are.
-- KEYS but the last, ARGV[1..3]: see engine_pass.lua; KEYS[1] is the gate
-- KEYS[#KEYS] readers: ZSET of tokens by expiry, server's ms
-- A reader's token reserves no fencing token. What a message grants is marked: r = in as a reader, w = has the gate and no
-- reader is in, d = has the gate, and w follows when the last reader leaves.
-- include pass.lua
local readers, most = KEYS[#KEYS], 100 -- so many readers are told by one script; the next of them goes on

local function inside()
  redis.call('ZREMRANGEBYSCORE', readers, '-inf', now())
  return redis.call('ZCARD', readers)
end

local function enter(token, px)
  redis.call('ZADD', readers, string.format('%.0f', now() + px), token)
  if redis.call('PTTL', readers) < tonumber(px) then redis.call('PEXPIRE', readers, px) end
end

local function tell(channel, token, mark, fence)
  redis.call(ARGV[3], channel, string.format('%s %s%.0f %s %s', token, mark, fence, now(), KEYS[1]))
end

-- admit returns the fences of those who got in without a message because the caller answers to them (mine).
local function admit(mine)
  local got, free, told = {}, inside() == 0, 0
  while true do
    local token = redis.call('ZPOPMIN', KEYS[2])[1]
    if not token then redis.call('DEL', KEYS[1]) return got end
    local reads, claim = string.match(token, '%.(%d+)%.(%d+)$')
    reads = reads == '0' and (mine[token] or told < most)
    local channel = mine[token] or listens(token)
    if channel then
      local px, fence = mine[token] and ARGV[2] or claim, nil
      if reads then enter(token, px) fence = counter() else fence = take(token, px) end
      if mine[token] then got[token] = fence else tell(channel, token, reads and 'r' or free and 'w' or 'd', fence) end
      if not reads then return got end
      free, told = false, told + 1
    else
      skipped = skipped + 1
    end
  end
end
