-- ?1 = product id.
DELETE FROM purged WHERE product_id = ?
