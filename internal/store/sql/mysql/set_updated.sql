-- Writes the computed count, unless the row's time differs from the one read; two writes in one second have the same time. The server
-- sets the time by itself. ?1 = stock, ?2 = product id, ?3 = time as read. No row = refused.
UPDATE product_stock SET stock = ?, lease_seq = lease_seq + 1, version = version + 1 WHERE id = ? AND updated_at = ?
