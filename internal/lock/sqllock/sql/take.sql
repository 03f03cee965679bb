-- Takes a lock that is free or expired, and raises its fence. ?1 = owner, ?2 = TTL in microseconds, ?3 = key. The TTL counts from the
-- start of the statement, without its wait for the row.
UPDATE record_lock SET owner = ?, expires_us = NOW_US + ?, fence = fence + 1 WHERE lock_key = ? AND expires_us <= NOW_US
