-- Releases the lock to the next waiter, as one step, and queues for it again where the process has more waiters of its own.
-- KEYS, ARGV[1..3]: see engine_pass.lua   ARGV[4] token to queue with, or ''
-- Returns {1 = released (also when asked again), 0 = it was not the caller's (any more);
-- what became of ARGV[4]: 1 = it has the lock, 0 = it is queued, -1 = nothing; last fence; PTTL; time; skipped},
-- or 1 alone where nobody waited.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  local again = redis.call('GET', KEYS[4]) == ARGV[1]
  return {again and 1 or 0, -1, 0, 0, '0', 0}
end
if ARGV[4] == '' and redis.call('ZCARD', KEYS[2]) == 0 then
  redis.call('RENAME', KEYS[1], KEYS[4]) -- remembered for what was left of its TTL
  return 1
end
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

-- Part of the engine's scripts: the fencing counter. KEYS: see engine_pass.lua; keep is how long (ms) it outlives a grant.

-- begin starts a counter that is new, or was lost, at the server's time in us. That is above all it gave out before, unless
-- the clock went back: a grant reserves sixteen by default, and is at least a round trip after the one before.
local function begin()
  local t = redis.call('TIME')
  return redis.call('HINCRBY', KEYS[3], 'fence', t[1] .. string.format('%06d', t[2]))
end

local function counter()
  local fence = redis.call('HGET', KEYS[3], 'fence')
  if fence then return tonumber(fence) end
  fence = begin()
  redis.call('PEXPIRE', KEYS[3], keep)
  return fence
end

-- take makes token the owner and returns the last fencing token that it reserves.
local function take(token, px)
  local fences = string.match(token, '%.(%d+)%.%d+$')
  local fence = redis.call('HINCRBY', KEYS[3], 'fence', fences)
  if fence == tonumber(fences) then fence = begin() end
  redis.call('PEXPIRE', KEYS[3], keep)
  redis.call('SET', KEYS[1], token, 'PX', px)
  return fence
end

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
redis.call('SET', KEYS[4], ARGV[1], 'PX', memory)
if ARGV[4] == '' then
  pass({})
  return {1, -1, 0, 0, '0', skipped}
end
enqueue(ARGV[4])
local token, fence = pass({[ARGV[4]] = true})
if token == ARGV[4] then return {1, 1, fence, 0, '0', skipped} end
return {1, 0, 0, redis.call('PTTL', KEYS[1]), now(), skipped}
