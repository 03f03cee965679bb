-- mode is the mode that answered: the same key in another mode is another payload. NULL = written by a replica of an earlier version.
-- MySQL has no ADD COLUMN IF NOT EXISTS.
SET @lastitem_add = IF(
  (SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'idempotent_log' AND column_name = 'mode') = 0,
  'ALTER TABLE idempotent_log ADD COLUMN mode VARCHAR(64) NULL',
  'DO 0');

PREPARE lastitem_add FROM @lastitem_add;

EXECUTE lastitem_add;

DEALLOCATE PREPARE lastitem_add;
