-- Removes the key from the other rows of the carts that contain a product, because its answer will be deleted: so no order has a key
-- without an answer. The answer to another request with the key stays, see delete_cart_keys.sql. ?1 = product id.
UPDATE orders o
JOIN orders f ON f.id = o.id AND f.product_id <> o.product_id
JOIN idempotent_log k ON k.idempotency_key = o.idempotency_key AND INSTR(k.body, o.id) > 0
SET f.idempotency_key = NULL WHERE o.product_id = ?
