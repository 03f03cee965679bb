-- Takes a lock that has no expiry, or fails with a duplicate key while somebody has it. ?1 = key, ?2 = owner.
INSERT INTO record_lock (lock_key, owner) VALUES (?, ?)
