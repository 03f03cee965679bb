-- The read that locks the row until the transaction ends, or fails at once if another transaction has it. ?1 = product id.
SELECT stock, lease_seq, version, CAST(updated_at AS CHAR), segments FROM product_stock WHERE id = ? FOR UPDATE NOWAIT
