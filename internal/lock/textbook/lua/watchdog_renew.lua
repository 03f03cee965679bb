-- Keeps the lock alive for its owner.
-- KEYS[1] lock   ARGV[1] TTL in ms   ARGV[2] owner
-- Returns 1 when it was renewed, 0 when it is not the owner's (any more).
-- HEXISTS answers 0 or 1, and both are true in Lua: "if redis.call('HEXISTS', ...)" would never see a loss.
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
  return redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return 0
