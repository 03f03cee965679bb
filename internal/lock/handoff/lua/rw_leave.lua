-- Takes a reader out, whatever has become of it: in, queued, not yet arrived. The last reader to leave notifies the writer that waits.
-- KEYS, ARGV[1..3]: see rw_admit.lua   ARGV[4] '' = no acquire can arrive any more, else how long (ms) its tombstone lasts
-- Returns {1 = the reader was in, 0 = it was not (any more), -1 = it was evicted (force.lua); -1; 0; 0; time; skipped}, or 1 alone if nobody
-- waited.
local removed, owner = redis.call('ZREM', KEYS[#KEYS], ARGV[1]), redis.call('GET', KEYS[1])
if removed == 1 and not owner and ARGV[4] == '' then return 1 end
-- include rw_admit.lua
if removed == 0 and string.sub(redis.call('GET', KEYS[5]) or '', 1, 7) == 'evicted' then return {-1, -1, 0, 0, '0', 0} end
if ARGV[4] ~= '' then
  redis.call('SET', KEYS[5], 1, 'PX', ARGV[4])
  redis.call('ZREM', KEYS[2], ARGV[1])
end
if owner == ARGV[1] then
  admit({})
elseif owner and removed == 1 then
  local err = admit_writer(owner)
  if err then return err end
end
return {removed, -1, 0, 0, '0', skipped}
