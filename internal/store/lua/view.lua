-- Reads a product at one moment. It is a script and not a MULTI because a Redis whose memory is full refuses to queue even reads.
-- KEYS[1] the count, 2 the initial count, 3 the orders, then the segments. ARGV[1] how many orders to read, from the
-- first on. Returns the count, the initial count, the number of orders, the orders, the counts of the segments, and the
-- last order.
local call, counts = redis.call, {}
for i = 4, #KEYS do counts[i - 3] = call('GET', KEYS[i]) end
return {
  call('GET', KEYS[1]), call('GET', KEYS[2]), call('LLEN', KEYS[3]),
  ARGV[1] == '0' and {} or call('LRANGE', KEYS[3], 0, ARGV[1] - 1), counts,
  call('LINDEX', KEYS[3], -1),
}
