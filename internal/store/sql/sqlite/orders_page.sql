-- A page of the orders of a product in the order of insertion: by rowid, which every index entry ends with. ?1 = product id,
-- ?2 = the last order of the page before, ?3 = the last order to read, ?4 = how many.
SELECT id, product_id, quantity, remaining, mode, replica, idempotency_key, fence, created_us, rowid
FROM orders WHERE product_id = ? AND rowid > CAST(? AS INTEGER) AND rowid <= CAST(? AS INTEGER) ORDER BY rowid LIMIT ?
