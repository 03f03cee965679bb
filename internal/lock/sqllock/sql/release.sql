-- Releases a lock if the owner still holds it. The row stays, with its fence. ?1 = key, ?2 = owner.
UPDATE record_lock SET owner = '', expires_us = 0 WHERE lock_key = ? AND owner = ? AND expires_us > NOW_US
