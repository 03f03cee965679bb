-- The keys of the carts in a page of orders that stand under another product. ?1 = product id, ?2 = the order before the page,
-- ?3 = its last one.
SELECT k.idempotency_key, k.status, k.created_us FROM orders o
JOIN orders f ON f.id = o.id AND f.product_id <> o.product_id
JOIN idempotent_log k ON k.idempotency_key = o.idempotency_key AND k.product_id = f.product_id
WHERE o.product_id = ? AND o.rowid > CAST(? AS INTEGER) AND o.rowid <= CAST(? AS INTEGER)
