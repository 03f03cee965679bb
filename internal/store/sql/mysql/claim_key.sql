-- The first to insert the key goes on; a rival blocks here until the first has ended, and then inserts nothing. ?1 = key,
-- ?2 = product id, ?3 = fingerprint of the payload, ?4 = microseconds.
INSERT IGNORE INTO idempotent_log (idempotency_key, product_id, fingerprint, body, created_us) VALUES (?, ?, ?, '', ?)
