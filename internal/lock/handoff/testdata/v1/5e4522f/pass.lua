-- Part of the engine's scripts: how a free lock goes to the first waiter whose process still listens.
-- KEYS[1] lock: the owner's token, with PX   KEYS[2] queue: ZSET of tokens by ticket
-- KEYS[3] hash: fence, ticket   KEYS[4] token of the last releaser   KEYS[5] tombstone of the token, where the script needs it
-- ARGV[1] token   ARGV[2] TTL in ms   ARGV[3] PUBLISH or SPUBLISH
-- A token is "process.number.fences.claim": so many fencing tokens it reserves, so long (ms) it may take to answer a grant.
local skipped, keep, memory = 0, 604800000, 60000 -- ms: a week for what must outlive any stall, a minute for re-sent calls

local function now()
  local t = redis.call('TIME')
  return string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
end

local function enqueue(token)
  redis.call('ZADD', KEYS[2], 'NX', redis.call('HINCRBY', KEYS[3], 'ticket', 1), token)
  redis.call('PEXPIRE', KEYS[2], keep)
end

-- include fence.lua

-- listens returns the channel where the process of a token hears what this server says, nil where it does not. PUBLISH says
-- that too late: who is connected to a replica hears it as well, and is not counted; who hears all channels is.
local function listens(token)
  local shard = ARGV[3] == 'SPUBLISH' and ':' .. string.match(KEYS[2], '{[^}]*}') or ''
  local channel = 'lock:engine:' .. string.match(token, '^[^.]+') .. shard
  return redis.call('PUBSUB', shard == '' and 'NUMSUB' or 'SHARDNUMSUB', channel)[2] > 0 and channel or nil
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
      redis.call(ARGV[3], channel, string.format('%s %.0f %s %s', token, fence, now(), KEYS[1]))
      return token
    end
    skipped = skipped + 1
  end
end
