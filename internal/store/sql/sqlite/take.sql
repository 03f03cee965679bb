-- Takes units only if they are there; the guard and the write are one statement. ?1 = quantity, ?2 = product id,
-- ?3 = quantity. No row = refused.
UPDATE product_stock SET stock = stock - ?, lease_seq = lease_seq + 1, version = version + 1
WHERE id = ? AND stock >= ? AND segments = 0 RETURNING stock
