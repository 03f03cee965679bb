-- Renews a lock if the owner still holds it. An expired lock is not revived: a rival may have had it since. ?1 = TTL in microseconds, ?2
-- = key, ?3 = owner.
UPDATE record_lock SET expires_us = NOW_US + ? WHERE lock_key = ? AND owner = ? AND expires_us > NOW_US
