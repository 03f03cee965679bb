-- A transaction has the whole database locked from its beginning: see _txlock. ?1 = product id.
SELECT stock, lease_seq, version, CAST(updated_at AS CHAR), segments, run FROM product_stock WHERE id = ?
