-- Part of the engine's scripts: how a free lock goes to the first waiter whose process is subscribed.
-- KEYS[1] lock: the owner's token, with PX   KEYS[2] queue: ZSET of tokens by ticket
-- KEYS[3] hash: fence, ticket, granted   KEYS[4] token of the last releaser   KEYS[5] tombstone of the token, where the script needs it
-- ARGV[1] token   ARGV[2] TTL in ms   ARGV[3] PUBLISH or SPUBLISH, and what begins all channels
-- A token is "process.number.fences.timeout": the number begins with L if the lock is taken for a lease time; then how many
-- fencing tokens it reserves, and how long (ms) a grant by message may stay unanswered.
local publish, channels = string.match(ARGV[3], '^(%u+) (.*)$')
local skipped, memory = 0, 60000 -- ms; memory is how long an outcome is kept for a duplicate of the request
-- The server is busy while a script runs, so none takes more than most tokens from the queue. If more are left, the lock
-- stays free, nobody overtakes the queue, and the reply names a short time (ms) after which a waiter polls again.
local most, taken, more, soon = 1000, 0, false, 10

-- now returns the server's time in ms, read before the script grants anything. If it were read after the SET, and the server stopped in
-- between, a grant's message would name too late a time: the receiver counts its lease from then. Since Redis 7.2, TIME does not change
-- within a script.
local began = redis.call('TIME')
local clock = began[1] * 1000000 + began[2]
began = string.format('%.0f', math.floor(clock / 1000))
local function now() return began end

-- include fence.lua

-- highest returns what no fence so far is above, see reserve.
local function highest() return math.max(redis.call('HGET', KEYS[3], 'fence') or 0, clock) end

-- counter returns the last fencing token that was reserved.
local function counter() return tonumber(redis.call('HGET', KEYS[3], 'fence') or clock) end

-- keep_queue keeps the queue, and the tickets that order it, for as long as a token is queued.
local function keep_queue()
  redis.call('PEXPIRE', KEYS[2], keep)
  redis.call('PEXPIRE', KEYS[3], keep)
end

local function enqueue(token)
  redis.call('ZADD', KEYS[2], 'NX', redis.call('HINCRBY', KEYS[3], 'ticket', 1), token)
  keep_queue()
end

local function process_of(token) return string.match(token, '^[^.]+') or '' end

-- foreign says whether a token is of an engine of another version, whose scripts may differ: a token begins with its version.
local function foreign(token)
  return token and string.sub(token, 1, 3) ~= 'v2-' and string.find(token, '^[^.]+%.%w+%.%d+%.%d+$') ~= nil
end

-- refusal is the answer to an acquire whose lock a foreign token owns.
local refusal = redis.error_reply('LOCKVERSION the owner of the lock has no token of this version')

-- note_grant notes a grant: the fencing counter (the next grant moves it, and so makes the note void), the time at which the grant ends
-- unless it is renewed, and the process that has it. The first renewal deletes the note.
local function note_grant(fence, px, name)
  redis.call('HSET', KEYS[3], 'granted', string.format('%.0f %.0f ', fence, now() + px) .. name)
end

-- grant makes token the owner and returns the last fencing token that it reserves.
local function grant(token, px)
  local fence = reserve(string.match(token, '%.(%d+)%.%d+$'))
  redis.call('SET', KEYS[1], token, 'PX', px)
  note_grant(fence, px, process_of(token))
  return fence
end

-- channel_of returns the channel of a token's process if the process is subscribed to it at this server, else nil; nil too for a foreign
-- token, whose process may not understand the message. The reply to PUBLISH
-- would say so too late; besides, it does not count clients of replicas, and it counts clients that subscribe to all channels.
-- Redis is asked once about each process.
local subscribed = {}
local function channel_of(token)
  if foreign(token) then return nil end
  local name, shard = process_of(token), publish == 'SPUBLISH' and ':' .. string.match(KEYS[2], '{[^}]*}') or ''
  local channel = channels .. name .. shard
  if subscribed[name] == nil then
    subscribed[name] = redis.call('PUBSUB', shard == '' and 'NUMSUB' or 'SHARDNUMSUB', channel)[2] > 0
  end
  return subscribed[name] and channel or nil
end

-- next_token takes the first token from the queue; nil = it is empty, or there are more of the dead than one script handles.
local function next_token()
  more, taken = taken == most, taken + 1
  return not more and redis.call('ZPOPMIN', KEYS[2])[1] or nil
end

-- remove_waiters removes the waiters of silent processes (a set) from the queue. A process that is alive queues them again with its next
-- poll. Only the first 5,000 waiters are checked, so that the server is not busy for long.
local function remove_waiters(silent)
  for _, token in ipairs(redis.call('ZRANGE', KEYS[2], 0, 4999)) do
    if silent[process_of(token)] then
      redis.call('ZREM', KEYS[2], token)
      skipped = skipped + 1
    end
  end
end

-- noted_grant returns when the noted grant ends and the process that has it, or nil if the note is void.
local function noted_grant()
  local hash = redis.call('HMGET', KEYS[3], 'fence', 'granted')
  local fence, ends, name = string.match(hash[2] or '', '^(%d+) (%d+) (.*)$')
  if fence and fence == hash[1] then return ends, name end
end

-- check_last_grant handles a lock without an owner. If the last grant was never renewed and has expired (it was not deleted by hand), its
-- process is silent, and the other waiters of that process would not answer a grant either.
local function check_last_grant()
  local ends, name = noted_grant()
  if ends and ends - now() < 10 and name ~= process_of(ARGV[1]) then remove_waiters({[name] = true}) end
end

-- hand_over gives the lock to the first waiter and returns its token. The reply of the script tells the caller if the token is one of its
-- own (mine); any other process gets a message.
local function hand_over(mine)
  while true do
    local token = next_token()
    if not token then redis.call('DEL', KEYS[1]) return nil end
    if mine[token] then return token, grant(token, ARGV[2]) end
    local channel = channel_of(token)
    if channel then
      local fence = grant(token, string.match(token, '%.(%d+)$'))
      redis.call(publish, channel, token .. string.format(' %.0f ', fence) .. now() .. ' ' .. KEYS[1])
      return token
    end
    skipped = skipped + 1
  end
end
