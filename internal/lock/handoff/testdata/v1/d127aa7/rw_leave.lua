-- Takes a reader out, whatever has become of it: in, queued, not yet arrived. The last one out tells the writer who waits.
-- KEYS, ARGV[1..3]: see rw_admit.lua   ARGV[4] '' = no acquire can arrive any more, else how long
-- (ms) the token is remembered as ended
-- Returns {1 = the reader was in, 0 = it was not (any more); -1; 0; 0; time; skipped}, or 1 alone where nobody waited.
local was, gate = redis.call('ZREM', KEYS[#KEYS], ARGV[1]), redis.call('GET', KEYS[1])
if was == 1 and not gate and ARGV[4] == '' then return 1 end
-- include rw_admit.lua
if ARGV[4] ~= '' then
  redis.call('SET', KEYS[5], 1, 'PX', ARGV[4])
  redis.call('ZREM', KEYS[2], ARGV[1])
end
if gate == ARGV[1] then
  admit({})
elseif gate and was == 1 and inside() == 0 then
  -- What it is told is believed in for a claim.
  local claim = string.match(gate, '%.(%d+)$')
  if redis.call('PTTL', KEYS[1]) < tonumber(claim) then redis.call('PEXPIRE', KEYS[1], claim) end
  local channel = listens(gate)
  if channel then tell(channel, gate, 'w', counter()) end
end
return {was, -1, 0, 0, '0', skipped}
