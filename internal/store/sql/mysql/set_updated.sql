-- Writes what was computed, unless the row's time is another than that read; two writes in one second have the same. The server
-- sets the time by itself. ?1 = stock, ?2 = product id, ?3 = time as read. No row = refused.
UPDATE product_stock SET stock = ?, lease_seq = lease_seq + 1, version = version + 1 WHERE id = ? AND updated_at = ?
