-- Part of the read-write scripts: how a free lock goes to the first writer in the queue, or to the readers before that writer.
-- KEYS but the last, ARGV[1..3]: see pass.lua; KEYS[1] is the write lock. A writer owns it before the last readers have left; a reader
-- enters only while it is free.
-- KEYS[#KEYS] readers: ZSET of tokens by expiry, server's ms
-- A reader's token reserves no fencing token. A message says with a mark what it grants: r = a read, w = the write lock, and no reader is
-- in, d = the write lock while readers are in, and w follows when the last of them leaves.
-- include pass.lua
local readers, messages = KEYS[#KEYS], 100 -- so many readers are admitted by messages of one script; the next one admits the others

-- reader_count counts the readers. A reader that has expired has neither left nor renewed: its process is silent, unless it is the
-- caller's, or the reader had a lease time, which is not renewed.
local function reader_count()
  local silent = {}
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', readers, '-inf', now(), 'LIMIT', 0, most)) do
    redis.call('ZREM', readers, token)
    if process_of(token) ~= process_of(ARGV[1]) and not string.find(token, '^[^.]+%.L') then silent[process_of(token)] = true end
  end
  if next(silent) then remove_waiters(silent) end
  return redis.call('ZCARD', readers)
end

local function add_reader(token, px)
  local left = math.max(redis.call('PTTL', readers), px)
  local others = redis.call('PEXPIRE', readers, left) -- first: see release.lua
  redis.call('ZADD', readers, string.format('%.0f', now() + px), token)
  if others == 0 then redis.call('PEXPIRE', readers, left) end
end

local function notify(channel, token, mark, fence)
  redis.call(publish, channel, token .. ' ' .. mark .. string.format('%.0f ', fence) .. now() .. ' ' .. KEYS[1])
end

-- admit grants the lock to the first in the queue, a writer or all readers before the next writer. It returns the fences of those to whom
-- the caller's reply says so (mine); the others get a message.
local function admit(mine)
  local fences, free, notified = {}, reader_count() == 0, 0
  while true do
    local token = next_token()
    if not token then redis.call('DEL', KEYS[1]) return fences end
    local reads, timeout = string.match(token, '%.(%d+)%.(%d+)$')
    reads = reads == '0' and (mine[token] or notified < messages)
    local channel = mine[token] or channel_of(token)
    if channel then
      local px, fence = mine[token] and ARGV[2] or timeout, nil
      if reads then add_reader(token, px) fence = highest() else fence = grant(token, px) end
      if mine[token] then fences[token] = fence else notify(channel, token, reads and 'r' or free and 'w' or 'd', fence) end
      if not reads then return fences end
      free, notified = false, notified + 1
    else
      skipped = skipped + 1
    end
  end
end

-- admit_writer tells the writer that owns the write lock that it is in, if the last reader has left. The writer counts its lease from this
-- message, as from any grant by message. It returns an error if the owner is no token: something else has written the key.
local function admit_writer(owner)
  local timeout = string.match(owner, '%.(%d+)$')
  if not timeout then return refusal end
  if reader_count() > 0 then return end
  if redis.call('PTTL', KEYS[1]) < tonumber(timeout) then redis.call('PEXPIRE', KEYS[1], timeout) end
  local channel = channel_of(owner)
  if channel then notify(channel, owner, 'w', counter()) end
end
