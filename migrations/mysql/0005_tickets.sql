-- received: the end of a ticket, that is of a sale that was won in Redis: its order is here, or it has none. It is written in the
-- transaction that writes the order, so that a ticket that is delivered again has no second effect. idempotency_key is that of a ticket that
-- was sold: within a run it is sold once. at_us is microseconds since the epoch by the replica's clock.
CREATE TABLE IF NOT EXISTS received (
  id              CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  product_id      BIGINT      NOT NULL,
  run             BIGINT      NOT NULL,
  quantity        BIGINT      NOT NULL,
  outcome         VARCHAR(8)  NOT NULL,
  order_id        CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  reason          VARCHAR(64) NULL,
  idempotency_key VARBINARY(255) NULL,
  deliveries      BIGINT      NOT NULL,
  at_us           BIGINT      NOT NULL,
  UNIQUE KEY received_once (product_id, run, idempotency_key),
  KEY received_outcome (product_id, outcome)
) ENGINE = InnoDB;
