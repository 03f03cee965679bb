-- Reads those of the given keys that are old. ?... = keys, then the time in microseconds before which a key is old.
SELECT /* lastitem-purge */ idempotency_key, product_id, body FROM idempotent_log WHERE idempotency_key IN (?) AND created_us < ?
