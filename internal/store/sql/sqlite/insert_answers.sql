-- Stores first answers. If a key exists already, nothing is written and its row does not count as affected. One tuple per answer: ?1 key,
-- ?2 product, ?3 fingerprint, ?4 status, ?5 body, ?6 microseconds, ?7 mode.
INSERT INTO idempotent_log (idempotency_key, product_id, fingerprint, status, body, created_us, mode)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (idempotency_key) DO NOTHING
