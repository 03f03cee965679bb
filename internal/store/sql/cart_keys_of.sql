-- The keys of carts that contain a product and are stored under another one, each once: older orders with the key are not in its answer.
-- ?1 = product id.
SELECT k.idempotency_key, k.status, k.created_us, k.mode FROM orders o
JOIN orders f ON f.id = o.id AND f.product_id <> o.product_id
JOIN idempotent_log k ON k.idempotency_key = o.idempotency_key AND k.product_id = f.product_id AND INSTR(k.body, o.id) > 0
WHERE o.product_id = ?
