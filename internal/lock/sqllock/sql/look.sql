-- Who has a lock, and for how many microseconds more; NULL = forever. ?1 = key.
SELECT owner, fence, expires_us - NOW_US FROM record_lock WHERE lock_key = ?
