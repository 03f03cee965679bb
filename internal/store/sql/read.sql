-- The plain, unlocked read that trusting modes begin with. ?1 = product id.
SELECT stock, lease_seq, version, CAST(updated_at AS CHAR), segments FROM product_stock WHERE id = ?
