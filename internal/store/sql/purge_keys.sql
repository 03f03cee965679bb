-- ?... = keys.
DELETE /* lastitem-purge */ FROM idempotent_log WHERE idempotency_key IN (?)
