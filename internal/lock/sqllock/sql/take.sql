-- Takes a lock that is free or whose holder's time is over, and raises its fence. ?1 = owner, ?2 = TTL in microseconds, ?3 = key.
-- The time is that of the statement's begin: what it waited for the row is not added.
UPDATE record_lock SET owner = ?, expires_us = NOW_US + ?, fence = fence + 1 WHERE lock_key = ? AND expires_us <= NOW_US
