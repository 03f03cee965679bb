-- Adds to a count, also where memory is full: see set.lua. KEYS[1] the count. ARGV[1] what to add. Returns the count.
redis.call('PERSIST', KEYS[1])
return redis.call('INCRBY', KEYS[1], ARGV[1])
