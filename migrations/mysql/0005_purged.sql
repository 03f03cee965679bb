-- purged: sums of a product's purged rows (orders, their units, and keys), so that audits still add up. A row is valid only while its
-- run is the product's: a replica of an earlier version resets the product without deleting the row.
CREATE TABLE IF NOT EXISTS purged (
  product_id BIGINT NOT NULL PRIMARY KEY,
  run        BIGINT NOT NULL,
  order_rows BIGINT NOT NULL DEFAULT 0,
  units      BIGINT NOT NULL DEFAULT 0,
  key_rows   BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB;

-- The purge finds the oldest rows with these indexes. MySQL has no CREATE INDEX IF NOT EXISTS.
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
