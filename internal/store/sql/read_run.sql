-- How often the stock of a product was set. ?1 = product id.
SELECT run FROM product_stock WHERE id = ?
