-- A cart is one order with a row per product. SQLite cannot change a key: the table is made anew.
CREATE TABLE orders_of_carts (
  id              TEXT    NOT NULL,
  product_id      INTEGER NOT NULL,
  quantity        INTEGER NOT NULL,
  remaining       INTEGER NULL,
  mode            TEXT    NOT NULL,
  replica         TEXT    NOT NULL,
  idempotency_key BLOB    NULL,
  fence           INTEGER NOT NULL DEFAULT 0,
  created_us      INTEGER NOT NULL,
  PRIMARY KEY (id, product_id)
);

INSERT INTO orders_of_carts
SELECT id, product_id, quantity, remaining, mode, replica, idempotency_key, fence, created_us FROM orders;

DROP TABLE orders;

ALTER TABLE orders_of_carts RENAME TO orders;

CREATE INDEX orders_product ON orders (product_id);

-- updated_at is what sql-updatetime compares: whole seconds, as CURRENT_TIMESTAMP has them. SQLite has no ON UPDATE: the
-- statements of that mode set it.
ALTER TABLE product_stock ADD COLUMN updated_at TEXT NOT NULL DEFAULT '1970-01-01 00:00:00';
