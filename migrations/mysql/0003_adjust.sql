-- adjustment: what was added to the stock of a run from outside, or taken. The first row of a run is its setting, and has no key; initial is
-- their sum. initial and stock are what an adjustment left, for a repetition of its request. at_us is microseconds since the epoch by the
-- database's clock.
CREATE TABLE IF NOT EXISTS adjustment (
  seq             BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  product_id      BIGINT NOT NULL,
  run             BIGINT NOT NULL,
  idempotency_key VARBINARY(255) NULL,
  delta           BIGINT NOT NULL,
  reason          VARBINARY(200) NOT NULL,
  initial         BIGINT NOT NULL,
  stock           BIGINT NOT NULL,
  at_us           BIGINT NOT NULL,
  UNIQUE KEY adjustment_once (product_id, run, idempotency_key)
) ENGINE = InnoDB;
