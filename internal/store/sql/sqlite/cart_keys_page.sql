-- The keys of the carts in a page of orders that are stored under another product. A key comes with the order that its answer names,
-- so it is in one page only. ?1 = product id, ?2 = the last order before the page, ?3 = the last order of the page.
SELECT k.idempotency_key, k.status, k.created_us, k.mode FROM orders o
JOIN orders f ON f.id = o.id AND f.product_id <> o.product_id
JOIN idempotent_log k ON k.idempotency_key = o.idempotency_key AND k.product_id = f.product_id AND INSTR(k.body, o.id) > 0
WHERE o.product_id = ? AND o.rowid > CAST(? AS INTEGER) AND o.rowid <= CAST(? AS INTEGER)
