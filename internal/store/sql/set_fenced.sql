-- The absolute write with a fencing token: refused once the row has seen a higher one. ?1 = stock, ?2 = token, ?3 = product id, ?4 =
-- token. No row = refused.
UPDATE product_stock SET stock = ?, fence = ?, lease_seq = lease_seq + 1, version = version + 1 WHERE id = ? AND fence <= ?
