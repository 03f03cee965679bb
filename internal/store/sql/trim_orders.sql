-- Orders of a product that are not carts with other products, without the young ones of a log's requests without a key. ?1 = product id, ?2 =
-- the log's mode, ?3 = microseconds from which on its orders are young, ?4 = how many at most.
SELECT id FROM orders o WHERE product_id = ?
  AND NOT (mode = ? AND COALESCE(LENGTH(idempotency_key), 0) = 0 AND created_us >= ?)
  AND NOT EXISTS (SELECT 1 FROM orders f WHERE f.id = o.id AND f.product_id <> o.product_id) LIMIT ?
