-- Sends an empty message to a process, as a hand-over does, which the process ignores. It changes nothing.
-- KEYS[1] a lock in the slot of the channel   ARGV[1] PUBLISH or SPUBLISH   ARGV[2] the channel
-- Returns how many are subscribed.
local subscribed = redis.call('PUBSUB', ARGV[1] == 'PUBLISH' and 'NUMSUB' or 'SHARDNUMSUB', ARGV[2])[2]
redis.call(ARGV[1], ARGV[2], '')
return subscribed
