-- The stock left after each of the given orders of a product. ?1 = product id, ?... = ids.
SELECT id, remaining FROM orders WHERE product_id = ? AND id IN
(?)
