-- Deletes the keys of carts that contain a product and are stored under another one. The answer must be that of the cart: another request
-- may have used the key since it was purged, and would be executed again without it. ?1 = product id.
DELETE FROM idempotent_log WHERE idempotency_key IN (
  SELECT k.idempotency_key FROM orders o
  JOIN orders f ON f.id = o.id AND f.product_id <> o.product_id
  JOIN idempotent_log k ON k.idempotency_key = o.idempotency_key AND k.product_id = f.product_id AND INSTR(k.body, o.id) > 0
  WHERE o.product_id = ?
)
