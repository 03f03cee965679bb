-- Deletes those of the given keys that are old; "+ 0" keeps it from locking through the index on the time. ?... = keys,
-- then the time in microseconds before which a key is old.
DELETE /* lastitem-purge */ FROM idempotent_log WHERE idempotency_key IN (?) AND created_us + 0 < ?
