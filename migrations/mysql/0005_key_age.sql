-- The purge finds the oldest keys with this index. MySQL has no CREATE INDEX IF NOT EXISTS.
SET @lastitem_add = IF(
  (SELECT COUNT(*) FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'idempotent_log' AND index_name = 'idempotent_log_created') = 0,
  'CREATE INDEX idempotent_log_created ON idempotent_log (created_us)',
  'DO 0');

PREPARE lastitem_add FROM @lastitem_add;

EXECUTE lastitem_add;

DEALLOCATE PREPARE lastitem_add;
