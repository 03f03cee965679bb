-- Part of the engine's scripts: how a free lock goes to the first waiter whose process still listens.
-- KEYS[1] lock: the owner's token, with PX   KEYS[2] queue: ZSET of tokens by ticket
-- KEYS[3] hash: fence, ticket, granted   KEYS[4] token of the last releaser   KEYS[5] tombstone of the token, where the script needs it
-- ARGV[1] token   ARGV[2] TTL in ms   ARGV[3] PUBLISH or SPUBLISH   ARGV[#ARGV] how long (ms) the counters outlive their last use
-- A token is "process.number.fences.claim": so many fencing tokens it reserves, so long (ms) it may take to answer a grant.
local skipped, keep, memory = 0, ARGV[#ARGV], 60000 -- ms: memory is for calls that are sent again

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

-- granted notes a grant: the counter at that time, which a later grant moves and so makes the note void; when the grant ends unless it is
-- renewed; and the process that has it. The first renewal deletes the note.
local function granted(fence, px, name)
  redis.call('HSET', KEYS[3], 'granted', string.format('%.0f %.0f ', fence, now() + px) .. name)
end

-- include fence.lua

-- listens returns the channel where the process of a token hears what this server says, nil where it does not. PUBLISH says
-- that too late: who is connected to a replica hears it as well, and is not counted; who hears all channels is.
local function listens(token)
  local shard = ARGV[3] == 'SPUBLISH' and ':' .. string.match(KEYS[2], '{[^}]*}') or ''
  local channel = 'lock:engine:' .. process(token) .. shard
  return redis.call('PUBSUB', shard == '' and 'NUMSUB' or 'SHARDNUMSUB', channel)[2] > 0 and channel or nil
end

-- dismiss takes the waiters of processes that are silent (a set) out of the queue: a process that lives queues them again with its next
-- poll. It looks at the first 5,000 only, so that the server is not busy for long.
local function dismiss(silent)
  for _, token in ipairs(redis.call('ZRANGE', KEYS[2], 0, 4999)) do
    if silent[process(token)] then
      redis.call('ZREM', KEYS[2], token)
      skipped = skipped + 1
    end
  end
end

-- noted returns the end and the process of the note, nil where the note is void.
local function noted()
  local hash = redis.call('HMGET', KEYS[3], 'fence', 'granted')
  local fence, ends, name = string.match(hash[2] or '', '^(%d+) (%d+) (.*)$')
  if fence and fence == hash[1] then return ends, name end
end

-- lapse is for a lock without an owner for which others have queued. If the last grant has run out (and was not deleted by hand), and was
-- never renewed, its process is silent: its other waiters would not answer a grant either.
local function lapse()
  local ends, name = noted()
  if ends and ends - now() < 10 and name ~= process(ARGV[1]) then dismiss({[name] = true}) end
end

-- pass hands the lock over, and returns to whom. Who calls the script (mine) is answered, all others are sent a message.
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
