-- Releases a lock that has no expiry, if the owner holds it. ?1 = key, ?2 = owner.
DELETE FROM record_lock WHERE lock_key = ? AND owner = ?
