-- ?1 = product id.
DELETE FROM orders WHERE product_id = ?
