-- Takes the key off the other rows of the carts that a product is in, where its answer will go: the orders stay, and no answer is
-- missing. ?1 = product id.
UPDATE orders o
JOIN orders f ON f.id = o.id AND f.product_id <> o.product_id
JOIN idempotent_log k ON k.idempotency_key = o.idempotency_key
SET f.idempotency_key = NULL WHERE o.product_id = ?
