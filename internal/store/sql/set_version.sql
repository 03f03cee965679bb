-- Writes the computed count, unless somebody has written since the version was read. ?1 = stock, ?2 = product id, ?3 = version as read.
-- No row = refused.
UPDATE product_stock SET stock = ?, lease_seq = lease_seq + 1, version = version + 1 WHERE id = ? AND version = ?
