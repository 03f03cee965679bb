-- product_stock: one row per product. initial is what PUT /products/{id}/stock set; segments > 0 says that the count in
-- Redis is split, and that modes on one counter must refuse. lease_seq, version and fence guard writes in the modes of that name.
CREATE TABLE IF NOT EXISTS product_stock (
  id        INTEGER NOT NULL PRIMARY KEY,
  initial   INTEGER NOT NULL,
  stock     INTEGER NOT NULL,
  segments  INTEGER NOT NULL DEFAULT 0,
  lease_seq INTEGER NOT NULL DEFAULT 0,
  version   INTEGER NOT NULL DEFAULT 0,
  fence     INTEGER NOT NULL DEFAULT 0
);

-- orders: created_us is microseconds since the epoch by the replica's clock.
CREATE TABLE IF NOT EXISTS orders (
  id              TEXT    NOT NULL PRIMARY KEY,
  product_id      INTEGER NOT NULL,
  quantity        INTEGER NOT NULL,
  remaining       INTEGER NULL,
  mode            TEXT    NOT NULL,
  replica         TEXT    NOT NULL,
  idempotency_key BLOB    NULL,
  fence           INTEGER NOT NULL DEFAULT 0,
  created_us      INTEGER NOT NULL
);

CREATE INDEX IF NOT EXISTS orders_product ON orders (product_id);

-- idempotent_log: the first answer under a key. Keys are bytes, compared as bytes.
CREATE TABLE IF NOT EXISTS idempotent_log (
  idempotency_key BLOB    NOT NULL PRIMARY KEY,
  product_id      INTEGER NOT NULL,
  fingerprint     BLOB    NOT NULL,
  status          INTEGER NOT NULL DEFAULT 0,
  body            BLOB    NOT NULL,
  created_us      INTEGER NOT NULL
);

CREATE INDEX IF NOT EXISTS idempotent_log_product ON idempotent_log (product_id);
