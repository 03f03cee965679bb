-- Runs the last command of a deduction even if memory is full (see set.lua). KEYS[1] the key. ARGV[1] the command, ARGV[2] its argument.
redis.call('PERSIST', KEYS[1])
return redis.call(ARGV[1], KEYS[1], ARGV[2])
