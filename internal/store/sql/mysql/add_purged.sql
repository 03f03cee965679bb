-- Adds removed rows to the sums of a product's current run; sums of an earlier run are dropped. The product's row is read without
-- a lock. ?1 = orders, ?2 = units, ?3 = keys, ?4 = product id.
INSERT /* lastitem-purge */ INTO purged (product_id, run, order_rows, units, key_rows)
SELECT id, run, ?, ?, ? FROM product_stock WHERE id = ?
ON DUPLICATE KEY UPDATE
  order_rows = IF(purged.run = VALUES(run), purged.order_rows, 0) + VALUES(order_rows),
  units = IF(purged.run = VALUES(run), purged.units, 0) + VALUES(units),
  key_rows = IF(purged.run = VALUES(run), purged.key_rows, 0) + VALUES(key_rows),
  run = VALUES(run)
