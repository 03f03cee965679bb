-- The oldest keys with an answer. ?1 = its status, ?2 = microseconds before which a key is old, ?3 = how many at most.
SELECT /* lastitem-purge */ idempotency_key FROM idempotent_log WHERE status = ? AND created_us < ? ORDER BY created_us LIMIT ?
