-- Creates the product or sets it back. lease_seq, version and fence only ever rise. ?1 = id, ?2 = initial, ?3 = stock, ?4 = segments.
INSERT INTO product_stock (id, initial, stock, segments) VALUES (?, ?, ?, ?)
ON DUPLICATE KEY UPDATE initial = VALUES(initial), stock = VALUES(stock), segments = VALUES(segments), lease_seq = lease_seq + 1
