-- adjustment: what was added to the stock of a run from outside, or taken. The first row of a run is its setting, and has no key; initial is
-- their sum. initial and stock are what an adjustment left, for a repetition of its request. at_us is microseconds since the epoch by the
-- database's clock.
CREATE TABLE IF NOT EXISTS adjustment (
  seq             INTEGER PRIMARY KEY AUTOINCREMENT,
  product_id      INTEGER NOT NULL,
  run             INTEGER NOT NULL,
  idempotency_key BLOB    NULL,
  delta           INTEGER NOT NULL,
  reason          TEXT    NOT NULL,
  initial         INTEGER NOT NULL,
  stock           INTEGER NOT NULL,
  at_us           INTEGER NOT NULL
);

CREATE UNIQUE INDEX IF NOT EXISTS adjustment_once ON adjustment (product_id, run, idempotency_key);
