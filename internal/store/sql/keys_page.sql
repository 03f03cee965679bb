-- A page of the keys that are stored under a product. ?1 = product id, ?2 = the last key of the page before, ?3 = how many.
SELECT idempotency_key, status, created_us, mode FROM idempotent_log
WHERE product_id = ? AND idempotency_key > ? ORDER BY idempotency_key LIMIT ?
