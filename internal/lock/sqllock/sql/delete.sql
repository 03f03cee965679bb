-- Gives a lock up that has no expiry, if it is the owner's. ?1 = key, ?2 = owner.
DELETE FROM record_lock WHERE lock_key = ? AND owner = ?
