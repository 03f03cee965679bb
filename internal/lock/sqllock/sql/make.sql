-- Makes the row of a lock, free, unless it is there already. ?1 = key.
INSERT INTO record_lock (lock_key, owner, expires_us) VALUES (?, '', 0)
