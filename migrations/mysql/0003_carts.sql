-- A cart is one order with a row per product. One statement drops the old key and makes the new one, so that it may be repeated.
ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (id, product_id);

-- updated_at is what sql-updatetime compares: the column of every write-up, with its whole seconds and set by the server at every
-- update. MySQL has no ADD COLUMN IF NOT EXISTS.
SET @lastitem_add = IF(
  (SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'product_stock' AND column_name = 'updated_at') = 0,
  'ALTER TABLE product_stock ADD COLUMN updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP',
  'DO 0');

PREPARE lastitem_add FROM @lastitem_add;

EXECUTE lastitem_add;

DEALLOCATE PREPARE lastitem_add;
