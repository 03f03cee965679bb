-- Takes units, appends their orders and keeps the answer under the request's key: first what concerns the answers, which are in
-- the hashes of answers.go, KEYS[1] to [4]; then sell.lua, in the same script.
local call = redis.call

-- Returns the answer that the key has, if any, and the name of the run, if it has one. old says to look into answers-old too.
local function find(key, old)
  local found = call('HMGET', KEYS[1], key, '')
  local answer, run = found[1], found[2]
  if answer or not run then return answer, run end -- without a run, what the other hashes hold is of another one
  answer = old and call('HGET', KEYS[2], key)
  if not answer and call('EXISTS', KEYS[3]) == 1 then -- where it is not, refusals-old is not either: that expires first
    answer = call('HGET', KEYS[3], key) or call('HGET', KEYS[4], key)
  end
  return answer, run
end

-- A refusal costs no stock, so it may be asked for at will: at most 2 x 10,000 of them are kept, for ten minutes.
local function room()
  if call('HLEN', KEYS[3]) < 10000 then return end
  call('UNLINK', KEYS[4])
  call('RENAME', KEYS[3], KEYS[4])
end

-- Keeps an answer in the hash, and in the claim, if there is one, for what the key is claimed: for so many milliseconds, 0 = forever.
local function keep(hash, key, answer, run, claim, owner, ms)
  if not run then
    call('UNLINK', KEYS[2], KEYS[3], KEYS[4])
    call('HSET', KEYS[1], '', 'run-t' .. table.concat(call('TIME')))
  end
  call('HSET', hash, key, answer)
  if hash == KEYS[3] then call('PEXPIRE', hash, 600000) end
  if not claim then return end
  if ms == '0' then call('SET', claim, owner) else call('SET', claim, owner, 'PX', ms) end
end
