-- product_stock: one row per product. initial is what PUT /products/{id}/stock set; segments > 0 says that the count in
-- Redis is split, and that modes on one counter must refuse. lease_seq, version and fence guard writes in the modes of that name.
-- updated_at is what sql-updatetime compares: whole seconds, as CURRENT_TIMESTAMP has them. SQLite has no ON UPDATE: the statements of that
-- mode set it. run names the time from one setting of the stock to the next. A request that waits in a log carries it, and is void in any
-- other: what it would take was never its to take.
CREATE TABLE IF NOT EXISTS product_stock (
  id         INTEGER NOT NULL PRIMARY KEY,
  initial    INTEGER NOT NULL,
  stock      INTEGER NOT NULL,
  segments   INTEGER NOT NULL DEFAULT 0,
  lease_seq  INTEGER NOT NULL DEFAULT 0,
  version    INTEGER NOT NULL DEFAULT 0,
  fence      INTEGER NOT NULL DEFAULT 0,
  updated_at TEXT    NOT NULL DEFAULT '1970-01-01 00:00:00',
  run        INTEGER NOT NULL DEFAULT 1
);

-- orders: created_us is microseconds since the epoch by the replica's clock. A cart is one order with a row per product.
CREATE TABLE IF NOT EXISTS orders (
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

CREATE INDEX IF NOT EXISTS orders_product ON orders (product_id);

-- idempotent_log: the first answer under a key, and the mode that gave it: the same key in another mode is another payload. Keys are bytes,
-- compared as bytes. Retention finds the oldest of a status by created_us.
CREATE TABLE IF NOT EXISTS idempotent_log (
  idempotency_key BLOB    NOT NULL PRIMARY KEY,
  product_id      INTEGER NOT NULL,
  fingerprint     BLOB    NOT NULL,
  status          INTEGER NOT NULL DEFAULT 0,
  body            BLOB    NOT NULL,
  created_us      INTEGER NOT NULL,
  mode            TEXT    NOT NULL DEFAULT ''
);

CREATE INDEX IF NOT EXISTS idempotent_log_product ON idempotent_log (product_id);

CREATE INDEX IF NOT EXISTS idempotent_log_age ON idempotent_log (status, created_us);

-- record_lock: the locks that are rows. expires_us is microseconds since the epoch by the database's own clock, 0 = free, NULL =
-- never: the row without expiry. fence counts the holds of the key, so the row of a lock that has a fence stays.
CREATE TABLE IF NOT EXISTS record_lock (
  lock_key   BLOB    NOT NULL PRIMARY KEY,
  owner      BLOB    NOT NULL,
  expires_us INTEGER NULL,
  fence      INTEGER NOT NULL DEFAULT 0
);
