-- The run that a product is in. ?1 = product id.
SELECT run FROM product_stock WHERE id = ?
