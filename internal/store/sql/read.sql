-- The plain, unlocked read that trusting modes begin with. ?1 = product id.
SELECT stock, lease_seq, segments FROM product_stock WHERE id = ?
