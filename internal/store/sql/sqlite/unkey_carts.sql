-- Removes the key from the other rows of the carts that contain a product, because its answer will be deleted: so no order has a key
-- without an answer. The answer to another request with the key stays, see delete_cart_keys.sql. ?1 = product id.
UPDATE orders SET idempotency_key = NULL WHERE (id, product_id) IN (
  SELECT f.id, f.product_id FROM orders o
  JOIN orders f ON f.id = o.id AND f.product_id <> o.product_id
  JOIN idempotent_log k ON k.idempotency_key = o.idempotency_key AND INSTR(k.body, o.id) > 0
  WHERE o.product_id = ?
)
