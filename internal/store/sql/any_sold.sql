-- How many of the given orders of a product exist. ?1 = product id, ?... = ids.
SELECT COUNT(*) FROM orders WHERE product_id = ? AND id IN
(?)
