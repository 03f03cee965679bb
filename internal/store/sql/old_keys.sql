-- The oldest keys. ?1 = microseconds before which a key is old, ?2 = how many at most.
SELECT /* lastitem-purge */ idempotency_key FROM idempotent_log WHERE created_us < ? ORDER BY created_us LIMIT ?
