-- Adds removed rows to the sums of a product's current run; sums of an earlier run are dropped. ?1 = orders, ?2 = units,
-- ?3 = keys, ?4 = product id.
INSERT /* lastitem-purge */ INTO purged (product_id, run, order_rows, units, key_rows)
SELECT id, run, ?, ?, ? FROM product_stock WHERE id = ?
ON CONFLICT (product_id) DO UPDATE SET
  order_rows = CASE WHEN purged.run = excluded.run THEN purged.order_rows ELSE 0 END + excluded.order_rows,
  units = CASE WHEN purged.run = excluded.run THEN purged.units ELSE 0 END + excluded.units,
  key_rows = CASE WHEN purged.run = excluded.run THEN purged.key_rows ELSE 0 END + excluded.key_rows,
  run = excluded.run
