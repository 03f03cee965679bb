-- Takes units, appends their orders, and keeps the answer under the request's key. This half handles the stored answers, in the
-- hashes KEYS[1] to [4] (see answers.go); sell.lua follows in the same script.
local call, fresh = redis.call, false -- fresh: the run is a new one, and has not been written yet

-- Returns the key's stored answer, if there is one, and the name of the run. old says whether to look into answers-old too.
local function find(key, old)
  local found = call('HMGET', KEYS[1], key, '')
  local answer, run = found[1], found[2]
  fresh = not run
  if fresh then run = 'run-t' .. table.concat(call('TIME')) end
  if answer or fresh then return answer, run end -- the other hashes belong to an earlier run
  answer = old and call('HGET', KEYS[2], key)
  if not answer and call('EXISTS', KEYS[3]) == 1 then -- without refusals there is no refusals-old: that one expires first
    answer = call('HGET', KEYS[3], key) or call('HGET', KEYS[4], key)
  end
  return answer, run
end

-- Refusals cost no stock, so clients can cause any number of them: at most 2 x 10,000 are kept, for ten minutes.
local function room()
  if call('HLEN', KEYS[3]) < 10000 then return end
  call('UNLINK', KEYS[4])
  call('RENAME', KEYS[3], KEYS[4])
end

-- Notes on an order of a cart which product has the answer, and until the end of which run: see rows.go.
local function noted(tail, first, run) return string.format('%s,"first":%s,"run":"%s"}', tail:sub(1, -2), first, run) end

-- Stores an answer in a hash, and the owner in the claim of the key, if there is one, for ms milliseconds (0 = forever).
local function keep(hash, key, answer, run, claim, owner, ms)
  if fresh then
    call('UNLINK', KEYS[2], KEYS[3], KEYS[4])
    call('HSET', KEYS[1], '', run)
  end
  call('HSET', hash, key, answer)
  if hash == KEYS[3] then call('PEXPIRE', hash, 600000) end
  if not claim then return end
  if ms == '0' then call('SET', claim, owner) else call('SET', claim, owner, 'PX', ms) end
end
