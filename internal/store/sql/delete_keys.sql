-- ?1 = product id.
DELETE FROM idempotent_log WHERE product_id = ?
