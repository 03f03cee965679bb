-- What was left after some orders of a product, by their ids. ?1 = product id, ?... = ids.
SELECT id, remaining FROM orders WHERE product_id = ? AND id IN
(?)
