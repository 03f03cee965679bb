-- A page of the orders of a product by rowid, in which they were inserted; the index on the product has it after it. ?1 = product id,
-- ?2 = the order before, ?3 = the last one that is wanted, ?4 = how many.
SELECT id, product_id, quantity, remaining, mode, replica, idempotency_key, fence, created_us, rowid
FROM orders WHERE product_id = ? AND rowid > CAST(? AS INTEGER) AND rowid <= CAST(? AS INTEGER) ORDER BY rowid LIMIT ?
