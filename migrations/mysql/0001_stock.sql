-- product_stock: one row per product. initial is what PUT /products/{id}/stock set; segments > 0 says that the count in
-- Redis is split, and that modes on one counter must refuse. lease_seq, version and fence guard writes in the modes of that name.
CREATE TABLE IF NOT EXISTS product_stock (
  id        BIGINT          NOT NULL PRIMARY KEY,
  initial   BIGINT          NOT NULL,
  stock     BIGINT          NOT NULL,
  segments  INT             NOT NULL DEFAULT 0,
  lease_seq BIGINT UNSIGNED NOT NULL DEFAULT 0,
  version   BIGINT UNSIGNED NOT NULL DEFAULT 0,
  fence     BIGINT UNSIGNED NOT NULL DEFAULT 0
) ENGINE = InnoDB;

-- orders: created_us is microseconds since the epoch by the replica's clock.
CREATE TABLE IF NOT EXISTS orders (
  id              CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  product_id      BIGINT          NOT NULL,
  quantity        BIGINT          NOT NULL,
  remaining       BIGINT          NULL,
  mode            VARCHAR(64)     NOT NULL,
  replica         VARCHAR(64)     NOT NULL,
  idempotency_key VARBINARY(255)  NULL,
  fence           BIGINT UNSIGNED NOT NULL DEFAULT 0,
  created_us      BIGINT          NOT NULL,
  KEY orders_product (product_id)
) ENGINE = InnoDB;

-- idempotent_log: the first answer under a key. Keys are bytes: no case folding, no trailing-blank equality.
CREATE TABLE IF NOT EXISTS idempotent_log (
  idempotency_key VARBINARY(255) NOT NULL PRIMARY KEY,
  product_id      BIGINT         NOT NULL,
  fingerprint     BINARY(32)     NOT NULL,
  status          SMALLINT       NOT NULL DEFAULT 0,
  body            BLOB           NOT NULL,
  created_us      BIGINT         NOT NULL,
  KEY idempotent_log_product (product_id)
) ENGINE = InnoDB;
