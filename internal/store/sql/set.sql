-- The trusting write: absolute, whatever the count is now. Every write raises lease_seq and version, so that a writer that compares one
-- of them notices every write. ?1 = stock, ?2 = product id.
UPDATE product_stock SET stock = ?, lease_seq = lease_seq + 1, version = version + 1 WHERE id = ?
