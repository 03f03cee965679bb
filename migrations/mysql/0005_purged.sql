-- purged: what the purge has removed of a product, so that its sums still come out: rows of orders, their units, and keys. It counts
-- while run is that of the product; the row of an earlier run, which a replica without this table leaves behind, does not.
CREATE TABLE IF NOT EXISTS purged (
  product_id BIGINT NOT NULL PRIMARY KEY,
  run        BIGINT NOT NULL,
  order_rows BIGINT NOT NULL DEFAULT 0,
  units      BIGINT NOT NULL DEFAULT 0,
  key_rows   BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB;

-- The purge finds the oldest rows by these. MySQL has no CREATE INDEX IF NOT EXISTS.
SET @lastitem_add = IF(
  (SELECT COUNT(*) FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders' AND index_name = 'orders_created') = 0,
  'CREATE INDEX orders_created ON orders (created_us)',
  'DO 0');

PREPARE lastitem_add FROM @lastitem_add;

EXECUTE lastitem_add;

DEALLOCATE PREPARE lastitem_add;

SET @lastitem_add = IF(
  (SELECT COUNT(*) FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'idempotent_log' AND index_name = 'idempotent_log_created') = 0,
  'CREATE INDEX idempotent_log_created ON idempotent_log (created_us)',
  'DO 0');

PREPARE lastitem_add FROM @lastitem_add;

EXECUTE lastitem_add;

DEALLOCATE PREPARE lastitem_add;
