-- The trusting write: absolute, whatever the count is now. ?1 = stock, ?2 = product id.
UPDATE product_stock SET stock = ? WHERE id = ?
