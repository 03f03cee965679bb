-- Creates the product or sets it back. lease_seq, version and fence only ever rise. ?1 = id, ?2 = initial, ?3 = stock, ?4 = segments.
INSERT INTO product_stock (id, initial, stock, segments) VALUES (?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET initial = excluded.initial, stock = excluded.stock, segments = excluded.segments, lease_seq = lease_seq + 1
