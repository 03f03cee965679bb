-- Releases a writer's gate to the next writer, or to the next readers, as one step.
-- KEYS, ARGV[1..3]: see engine_rw_admit.lua
-- Returns {1 = released (also when asked again), 0 = it was not the caller's (any more); -1; 0; 0; time; skipped}, or 1
-- alone where nobody waited.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {redis.call('GET', KEYS[4]) == ARGV[1] and 1 or 0, -1, 0, 0, '0', 0}
end
if redis.call('ZCARD', KEYS[2]) == 0 then
  redis.call('RENAME', KEYS[1], KEYS[4]) -- remembered for what was left of its TTL
  return 1
end
-- include rw_admit.lua
redis.call('SET', KEYS[4], ARGV[1], 'PX', memory)
admit({})
return {1, -1, 0, 0, '0', skipped}
