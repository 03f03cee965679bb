-- Deletes a lock that has no expiry, whoever holds it. ?1 = lock key.
DELETE FROM record_lock WHERE lock_key = ? AND expires_us IS NULL
