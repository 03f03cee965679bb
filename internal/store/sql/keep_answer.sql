-- Keeps the answer in the transaction that made it true. ?1 = status, ?2 = body, ?3 = key.
UPDATE idempotent_log SET status = ?, body = ? WHERE idempotency_key = ?
