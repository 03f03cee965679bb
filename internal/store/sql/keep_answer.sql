-- Stores the answer in the transaction that it answers. ?1 = status, ?2 = body, ?3 = mode, ?4 = key.
UPDATE idempotent_log SET status = ?, body = ?, mode = ? WHERE idempotency_key = ?
