-- Gives a lock up if it is still the owner's. The row stays, with its fence. ?1 = key, ?2 = owner.
UPDATE record_lock SET owner = '', expires_us = 0 WHERE lock_key = ? AND owner = ? AND expires_us > NOW_US
