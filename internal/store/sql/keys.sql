-- The keys of a product. The key of a cart is stored under its first product, and is found through the order that its answer names. ?1 =
-- product id, ?2 = product id.
SELECT idempotency_key, status, created_us, mode FROM idempotent_log WHERE product_id = ?
UNION
SELECT k.idempotency_key, k.status, k.created_us, k.mode FROM orders o
JOIN orders f ON f.id = o.id AND f.product_id <> o.product_id
JOIN idempotent_log k ON k.idempotency_key = o.idempotency_key AND k.product_id = f.product_id AND INSTR(k.body, o.id) > 0
WHERE o.product_id = ?
ORDER BY created_us
