-- Reads the newest committed row and keeps it until the transaction ends. ?1 = product id.
SELECT stock, lease_seq, version, CAST(updated_at AS CHAR), segments, run FROM product_stock WHERE id = ? FOR UPDATE
