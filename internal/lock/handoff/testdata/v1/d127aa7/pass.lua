-- Part of the engine's scripts: how a free lock goes to the first waiter whose process still listens.
-- KEYS[1] lock: the owner's token, with PX   KEYS[2] queue: ZSET of tokens by ticket
-- KEYS[3] hash: fence, ticket, granted   KEYS[4] token of the last releaser   KEYS[5] tombstone of the token, where the script needs it
-- ARGV[1] token   ARGV[2] TTL in ms   ARGV[3] PUBLISH or SPUBLISH   ARGV[#ARGV] how long (ms) the counters outlive their last use
-- A token is "process.number.fences.claim": so many fencing tokens it reserves, so long (ms) it may take to answer a grant.
local skipped, keep, memory = 0, ARGV[#ARGV], 60000 -- ms; memory is how long an outcome is kept for a duplicate of the call

local function now()
  local t = redis.call('TIME')
  return string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
end

-- retain keeps the queue, and the tickets that order it, for as long as somebody waits.
local function retain()
  redis.call('PEXPIRE', KEYS[2], keep)
  redis.call('PEXPIRE', KEYS[3], keep)
end

local function enqueue(token)
  redis.call('ZADD', KEYS[2], 'NX', redis.call('HINCRBY', KEYS[3], 'ticket', 1), token)
  retain()
end

local function process(token) return string.match(token, '^[^.]+') or '' end

-- granted notes a grant: the fencing counter (the next grant moves it, and so makes the note void), the time at which the grant ends unless
-- it is renewed, and the process that has it. The first renewal deletes the note.
local function granted(fence, px, name)
  redis.call('HSET', KEYS[3], 'granted', string.format('%.0f %.0f ', fence, now() + px) .. name)
end

-- include fence.lua

-- listens returns the channel of a token's process if the process is subscribed to it at this server, else nil. The reply to PUBLISH would
-- say so too late; besides, it does not count clients of replicas, and it counts clients that listen to all channels.
local function listens(token)
  local shard = ARGV[3] == 'SPUBLISH' and ':' .. string.match(KEYS[2], '{[^}]*}') or ''
  local channel = 'lock:engine:' .. process(token) .. shard
  return redis.call('PUBSUB', shard == '' and 'NUMSUB' or 'SHARDNUMSUB', channel)[2] > 0 and channel or nil
end

-- dismiss removes the waiters of silent processes (a set) from the queue. A process that is alive queues them again with its next poll.
-- Only the first 5,000 waiters are checked, so that the server is not busy for long.
local function dismiss(silent)
  for _, token in ipairs(redis.call('ZRANGE', KEYS[2], 0, 4999)) do
    if silent[process(token)] then
      redis.call('ZREM', KEYS[2], token)
      skipped = skipped + 1
    end
  end
end

-- noted returns when the noted grant ends and the process that has it, or nil if the note is void.
local function noted()
  local hash = redis.call('HMGET', KEYS[3], 'fence', 'granted')
  local fence, ends, name = string.match(hash[2] or '', '^(%d+) (%d+) (.*)$')
  if fence and fence == hash[1] then return ends, name end
end

-- lapse handles a lock without an owner. If the last grant was never renewed and has run out (it was not deleted by hand), its process is
-- silent, and the other waiters of that process would not answer a grant either.
local function lapse()
  local ends, name = noted()
  if ends and ends - now() < 10 and name ~= process(ARGV[1]) then dismiss({[name] = true}) end
end

-- pass hands the lock over and returns the new owner's token. The reply of the script tells the caller if it is one of its own (mine); any
-- other process gets a message.
local function pass(mine)
  while true do
    local token = redis.call('ZPOPMIN', KEYS[2])[1]
    if not token then redis.call('DEL', KEYS[1]) return nil end
    if mine[token] then return token, take(token, ARGV[2]) end
    local channel = listens(token)
    if channel then
      local fence = take(token, string.match(token, '%.(%d+)$'))
      redis.call(ARGV[3], channel, token .. string.format(' %.0f ', fence) .. now() .. ' ' .. KEYS[1])
      return token
    end
    skipped = skipped + 1
  end
end
