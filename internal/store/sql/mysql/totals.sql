-- How many orders a product has, for how many units, and where a reader of their pages begins and ends. ?1 = product id.
SELECT COUNT(*), COALESCE(SUM(quantity), 0), '', COALESCE(MAX(id), '') FROM orders WHERE product_id = ?
