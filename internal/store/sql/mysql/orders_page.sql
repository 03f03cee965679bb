-- A page of the orders of a product by id, which begins with the time; the index on the product has the id after it. ?1 = product id,
-- ?2 = the last order of the page before, ?3 = the last order to read, ?4 = how many.
SELECT id, product_id, quantity, remaining, mode, replica, idempotency_key, fence, created_us, id
FROM orders FORCE INDEX (orders_product) WHERE product_id = ? AND id > ? AND id <= ? ORDER BY id LIMIT ?
