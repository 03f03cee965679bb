-- Keys of a product whose answer is not a cart's. ?1 = product id, ?2 = how many at most.
SELECT idempotency_key FROM idempotent_log WHERE product_id = ? AND INSTR(body, '"items"') = 0 LIMIT ?
