-- The first answer under a key. ?1 = key.
SELECT fingerprint, status, body, mode FROM idempotent_log WHERE idempotency_key = ?
