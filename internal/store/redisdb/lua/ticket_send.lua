-- Sends the ticket of units that were taken apart from it. KEYS: 1 the stream, 2 the tickets, 3 rules. ARGV: 1 the ticket, 2 its units, 3 its
-- order.
redis.call('XADD', KEYS[1], '*', 'run', redis.call('HGET', KEYS[3], 'book') or '', 'order', ARGV[3])
return redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
