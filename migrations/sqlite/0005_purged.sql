-- purged: sums of a product's purged rows (orders, their units, and keys), so that audits still add up. A row is valid only while its
-- run is the product's: a replica of an earlier version resets the product without deleting the row.
CREATE TABLE IF NOT EXISTS purged (
  product_id INTEGER NOT NULL PRIMARY KEY,
  run        INTEGER NOT NULL,
  order_rows INTEGER NOT NULL DEFAULT 0,
  units      INTEGER NOT NULL DEFAULT 0,
  key_rows   INTEGER NOT NULL DEFAULT 0
);

-- The purge finds the oldest rows with these indexes.
CREATE INDEX IF NOT EXISTS orders_created ON orders (created_us);

CREATE INDEX IF NOT EXISTS idempotent_log_created ON idempotent_log (created_us);
