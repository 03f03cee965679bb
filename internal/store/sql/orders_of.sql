-- All orders of a product, in the order of the index. ?1 = product id.
SELECT id, product_id, quantity, remaining, mode, replica, idempotency_key, fence, created_us
FROM orders WHERE product_id = ?
