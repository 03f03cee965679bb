-- Reads a product at one moment. It is a script and not a MULTI because a Redis whose memory is full refuses to queue even reads.
-- KEYS[1] the count, 2 the initial count, 3 the orders, 4 the answers, 5 the sums of the purge, then the segments. ARGV[1] and [2] the
-- first and last index of the orders to read, none if [2] is negative. Returns the count, the initial count, the number of orders, the
-- name of the run, the sums with theirs, the orders, the counts of the segments, and the last order.
local call, counts = redis.call, {}
for i = 6, #KEYS do counts[i - 5] = call('GET', KEYS[i]) end
return {
  call('GET', KEYS[1]), call('GET', KEYS[2]), call('LLEN', KEYS[3]), call('HGET', KEYS[4], ''),
  call('HMGET', KEYS[5], 'run', 'orders', 'units', 'keys'),
  tonumber(ARGV[2]) < 0 and {} or call('LRANGE', KEYS[3], ARGV[1], ARGV[2]), counts,
  call('LINDEX', KEYS[3], -1),
}
