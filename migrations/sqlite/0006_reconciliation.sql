-- reconciliation: the journal of corrections of the count in Redis of products that are sold by tickets. A row is written before its
-- correction is sent; base and generation are those of the count before and after it. drift is what is added to the count: leaked, units that
-- nobody could buy, minus forgotten, units that are sold here and that Redis did not know of. applied_us is NULL if the correction was not
-- made, if its answer was lost, and if a failover of Redis has undone it. Times are microseconds since the epoch by the replica's clock.
CREATE TABLE IF NOT EXISTS reconciliation (
  product_id INTEGER NOT NULL,
  run        INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  base       INTEGER NOT NULL,
  drift      INTEGER NOT NULL,
  leaked     INTEGER NOT NULL,
  forgotten  INTEGER NOT NULL,
  at_us      INTEGER NOT NULL,
  applied_us INTEGER NULL,
  PRIMARY KEY (product_id, run, generation)
);
