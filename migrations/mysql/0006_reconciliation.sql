-- reconciliation: the journal of corrections of the count in Redis of products that are sold by tickets. A row is written before its
-- correction is sent; base and generation are those of the count before and after it. drift is what is added to the count: leaked, units that
-- nobody could buy, minus forgotten, units that are sold here and that Redis did not know of. applied_us is NULL if the correction was not
-- made, if its answer was lost, and if a failover of Redis has undone it. Times are microseconds since the epoch by the replica's clock.
CREATE TABLE IF NOT EXISTS reconciliation (
  product_id BIGINT NOT NULL,
  run        BIGINT NOT NULL,
  generation BIGINT NOT NULL,
  base       BIGINT NOT NULL,
  drift      BIGINT NOT NULL,
  leaked     BIGINT NOT NULL,
  forgotten  BIGINT NOT NULL,
  at_us      BIGINT NOT NULL,
  applied_us BIGINT NULL,
  PRIMARY KEY (product_id, run, generation)
) ENGINE = InnoDB;
