-- ?1 = product id.
SELECT id, product_id, quantity, remaining, mode, replica, idempotency_key, fence, created_us
FROM orders WHERE product_id = ? ORDER BY created_us, id
