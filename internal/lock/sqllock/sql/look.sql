-- The owner of a lock, and the microseconds left; NULL = no expiry. ?1 = key.
SELECT owner, fence, expires_us - NOW_US FROM record_lock WHERE lock_key = ?
