-- Makes the row of a lock, as a free lock, unless it exists already. ?1 = key.
INSERT INTO record_lock (lock_key, owner, expires_us) VALUES (?, '', 0)
