-- Part of the read-write scripts: how a gate that is left goes on, to the writer who is first, or past the readers who are.
-- KEYS but the last, ARGV[1..3]: see pass.lua; KEYS[1] is the gate
-- KEYS[#KEYS] readers: ZSET of tokens by expiry, server's ms
-- A reader's token reserves no fencing token. What a message grants is marked: r = in as a reader, w = has the gate and no
-- reader is in, d = has the gate, and w follows when the last reader leaves.
-- include pass.lua
local readers, most = KEYS[#KEYS], 100 -- so many readers are told by one script; the next of them goes on

-- inside counts the readers. A reader that has expired has neither left nor renewed: its process is silent, unless it is the caller's.
local function inside()
  local silent = {}
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', readers, '-inf', now())) do
    redis.call('ZREM', readers, token)
    if process(token) ~= process(ARGV[1]) then silent[process(token)] = true end
  end
  if next(silent) then dismiss(silent) end
  return redis.call('ZCARD', readers)
end

local function enter(token, px)
  local left = math.max(redis.call('PTTL', readers), px)
  local others = redis.call('PEXPIRE', readers, left) -- first: see release.lua
  redis.call('ZADD', readers, string.format('%.0f', now() + px), token)
  if others == 0 then redis.call('PEXPIRE', readers, left) end
end

local function tell(channel, token, mark, fence)
  redis.call(ARGV[3], channel, token .. ' ' .. mark .. string.format('%.0f ', fence) .. now() .. ' ' .. KEYS[1])
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
