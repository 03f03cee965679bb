-- take.sql, only while the product is still in the given run. ?1 = quantity, ?2 = product id, ?3 = quantity, ?4 = run. No row = refused.
UPDATE product_stock SET stock = LAST_INSERT_ID(stock - ?), lease_seq = lease_seq + 1, version = version + 1
WHERE id = ? AND stock >= ? AND segments = 0 AND run = ?
