-- product_stock: one row per product. initial is what PUT /products/{id}/stock set; segments > 0 says that the count in
-- Redis is split, and that modes on one counter must refuse. lease_seq, version and fence guard writes in the modes of that name.
-- updated_at is what sql-updatetime compares: the column of every write-up, with its whole seconds and set by the server at every
-- update. run names the time from one setting of the stock to the next. A request that waits in a log carries it, and is void in any other:
-- what it would take was never its to take.
CREATE TABLE IF NOT EXISTS product_stock (
  id         BIGINT          NOT NULL PRIMARY KEY,
  initial    BIGINT          NOT NULL,
  stock      BIGINT          NOT NULL,
  segments   INT             NOT NULL DEFAULT 0,
  lease_seq  BIGINT UNSIGNED NOT NULL DEFAULT 0,
  version    BIGINT UNSIGNED NOT NULL DEFAULT 0,
  fence      BIGINT UNSIGNED NOT NULL DEFAULT 0,
  updated_at DATETIME        NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  run        BIGINT          NOT NULL DEFAULT 1
) ENGINE = InnoDB;

-- orders: created_us is microseconds since the epoch by the replica's clock. A cart is one order with a row per product.
CREATE TABLE IF NOT EXISTS orders (
  id              CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  product_id      BIGINT          NOT NULL,
  quantity        BIGINT          NOT NULL,
  remaining       BIGINT          NULL,
  mode            VARCHAR(64)     NOT NULL,
  replica         VARCHAR(64)     NOT NULL,
  idempotency_key VARBINARY(255)  NULL,
  fence           BIGINT UNSIGNED NOT NULL DEFAULT 0,
  created_us      BIGINT          NOT NULL,
  PRIMARY KEY (id, product_id),
  KEY orders_product (product_id)
) ENGINE = InnoDB;

-- idempotent_log: the first answer under a key, and the mode that gave it: the same key in another mode is another payload. Keys are bytes:
-- no case folding, no trailing-blank equality. Retention finds the oldest of a status by created_us.
CREATE TABLE IF NOT EXISTS idempotent_log (
  idempotency_key VARBINARY(255) NOT NULL PRIMARY KEY,
  product_id      BIGINT         NOT NULL,
  fingerprint     BINARY(32)     NOT NULL,
  status          SMALLINT       NOT NULL DEFAULT 0,
  body            BLOB           NOT NULL,
  created_us      BIGINT         NOT NULL,
  mode            VARCHAR(64)    NOT NULL DEFAULT '',
  KEY idempotent_log_product (product_id),
  KEY idempotent_log_age (status, created_us)
) ENGINE = InnoDB;

-- record_lock: the locks that are rows. expires_us is microseconds since the epoch by the database's own clock, 0 = free, NULL =
-- never: the row without expiry. fence counts the holds of the key, so the row of a lock that has a fence stays.
CREATE TABLE IF NOT EXISTS record_lock (
  lock_key   VARBINARY(255)  NOT NULL PRIMARY KEY,
  owner      VARBINARY(64)   NOT NULL,
  expires_us BIGINT          NULL,
  fence      BIGINT UNSIGNED NOT NULL DEFAULT 0
) ENGINE = InnoDB;
