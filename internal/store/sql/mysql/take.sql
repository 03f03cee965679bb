-- Takes units only if they are there; the guard and the write are one statement. LAST_INSERT_ID(x) returns x, the remaining stock, with
-- the answer, so that the row is not locked during a second query. ?1 = quantity, ?2 = product id, ?3 = quantity. No row = refused.
UPDATE product_stock SET stock = LAST_INSERT_ID(stock - ?), lease_seq = lease_seq + 1, version = version + 1
WHERE id = ? AND stock >= ? AND segments = 0
