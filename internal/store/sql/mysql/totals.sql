-- The number of a product's orders and of their units, the position before the first order, and the last order, for reading pages. ?1 = product id.
SELECT COUNT(*), COALESCE(SUM(quantity), 0), '', COALESCE(MAX(id), '') FROM orders WHERE product_id = ?
