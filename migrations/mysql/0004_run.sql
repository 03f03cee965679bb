-- run names the time from one setting of the stock to the next. A request that waits in a log carries it, and is void in any other:
-- what it would take was never its to take. MySQL has no ADD COLUMN IF NOT EXISTS.
SET @lastitem_add = IF(
  (SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'product_stock' AND column_name = 'run') = 0,
  'ALTER TABLE product_stock ADD COLUMN run BIGINT NOT NULL DEFAULT 1',
  'DO 0');

PREPARE lastitem_add FROM @lastitem_add;

EXECUTE lastitem_add;

DEALLOCATE PREPARE lastitem_add;
