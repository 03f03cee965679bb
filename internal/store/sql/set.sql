-- The trusting write: absolute, whatever the count is now. Every write raises lease_seq, so that who compares it sees them all. ?1 = stock, ?2 = product id.
UPDATE product_stock SET stock = ?, lease_seq = lease_seq + 1 WHERE id = ?
