-- The first answers under some keys. ?... = keys.
SELECT idempotency_key, fingerprint, status, body, mode FROM idempotent_log WHERE idempotency_key IN
(?)
