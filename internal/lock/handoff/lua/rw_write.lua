-- Takes a free write lock, or queues for it. Sent again with the same token it answers the same, and renews.
-- KEYS, ARGV[1..3]: see rw_admit.lua   ARGV[4] 1 = queue, or wait for readers   ARGV[5] fencing tokens to reserve
-- Returns {2 = the token owns the write lock and no reader is in, 1 = it does, and readers are in, 0 = it does not, -1 = its attempt has
-- ended; last fence; ms until the write lock, or the first reader, expires; time; skipped}.
-- include fence.lua
local seen = redis.call('MGET', KEYS[1], KEYS[4], KEYS[5])
local owner, ended = seen[1], seen[3] or seen[2] == ARGV[1]
if not owner and not ended and redis.call('EXISTS', KEYS[2], KEYS[#KEYS]) == 0 then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return {2, reserve(ARGV[5]), 0, '0', 0}
end
if owner ~= ARGV[1] and ended then return {-1, 0, 0, '0', 0} end
-- include rw_admit.lua
local fence
if owner == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  fence = counter()
else
  if foreign(owner) then return refusal end
  if ARGV[4] == '1' then enqueue(ARGV[1]) end
  if not owner then
    check_last_grant()
    fence = admit({[ARGV[1]] = true})[ARGV[1]]
    if not fence and not more and ARGV[4] ~= '1' and redis.call('EXISTS', KEYS[1]) + reader_count() == 0 then fence = grant(ARGV[1], ARGV[2]) end
  end
end
if not fence then return {0, 0, more and soon or redis.call('PTTL', KEYS[1]), now(), skipped} end
if reader_count() == 0 then return {2, fence, 0, now(), skipped} end
local first, last = redis.call('ZRANGE', readers, 0, 0, 'WITHSCORES')[2], redis.call('ZRANGE', readers, -1, -1, 'WITHSCORES')[2]
redis.call('PEXPIRE', readers, math.max(1, last - now()) + 10000) -- so that reader_count still sees the readers that have expired
return {1, fence, math.max(1, first - now()), now(), skipped}
