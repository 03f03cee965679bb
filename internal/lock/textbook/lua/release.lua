-- Deletes the lock only if it is still the caller's: compare and delete as one step.
-- KEYS[1] lock   ARGV[1] owner
-- Returns 1 when it was deleted, 0 when it was not the caller's (any more).
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
