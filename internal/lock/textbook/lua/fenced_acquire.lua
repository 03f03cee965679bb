-- Takes a free lock and its fencing token in one step: with INCR as a command of its own, a holder whose lock has expired in
-- between would get a token above its rival's.
-- KEYS[1] lock   KEYS[2] counter, which never expires   ARGV[1] owner   ARGV[2] TTL in ms
-- Returns the token, nil when somebody else holds the lock.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return nil
