-- Sets keys, also where memory is full: Redis refuses a script's first write then, if it may take memory, and lets the others pass.
-- KEYS the keys. ARGV their values.
for i, key in ipairs(KEYS) do
  redis.call('DEL', key)
  redis.call('SET', key, ARGV[i])
end
return #KEYS
