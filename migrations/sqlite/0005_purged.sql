-- purged: what the purge has removed of a product, so that its sums still come out: rows of orders, their units, and keys. It counts
-- while run is that of the product; the row of an earlier run, which a replica without this table leaves behind, does not.
CREATE TABLE IF NOT EXISTS purged (
  product_id INTEGER NOT NULL PRIMARY KEY,
  run        INTEGER NOT NULL,
  order_rows INTEGER NOT NULL DEFAULT 0,
  units      INTEGER NOT NULL DEFAULT 0,
  key_rows   INTEGER NOT NULL DEFAULT 0
);

-- The purge finds the oldest rows by these.
CREATE INDEX IF NOT EXISTS orders_created ON orders (created_us);

CREATE INDEX IF NOT EXISTS idempotent_log_created ON idempotent_log (created_us);
