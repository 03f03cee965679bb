-- Shortens the claim of a sale that did not take place, unless another sale has claimed the key since.
-- KEYS[1] the claim. ARGV: its owner, the milliseconds that it lives on.
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
