-- The keys that are stored under a product. ?1 = product id.
SELECT idempotency_key, status, created_us, mode FROM idempotent_log WHERE product_id = ?
