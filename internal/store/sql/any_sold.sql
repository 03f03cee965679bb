-- How many of some orders of a product are there. ?1 = product id, ?... = ids.
SELECT COUNT(*) FROM orders WHERE product_id = ? AND id IN
(?)
