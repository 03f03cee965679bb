-- Undoes an attempt whatever its state: queued, granted, or not arrived yet (its tombstone refuses it then).
-- KEYS, ARGV[1..3]: see pass.lua
-- Returns {1 = it owned the lock, which was handed over, else 0; skipped}.
-- include pass.lua
redis.call('ZREM', KEYS[2], ARGV[1]) -- first: see release.lua
redis.call('SET', KEYS[5], 1, 'NX', 'PX', memory) -- NX: the mark of an eviction stays (force.lua)
redis.call('PEXPIRE', KEYS[5], memory)
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {0, 0} end
redis.call('SET', KEYS[4], ARGV[1], 'PX', memory)
hand_over({})
return {1, skipped}
