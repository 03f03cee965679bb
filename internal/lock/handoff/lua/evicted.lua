-- Says whether the holder that had a token was evicted: see force.lua. It changes nothing.
-- KEYS[1] tombstone of the token
-- Returns 1 = it was, in the last minute; 0 = it was not.
return string.sub(redis.call('GET', KEYS[1]) or '', 1, 7) == 'evicted' and 1 or 0
