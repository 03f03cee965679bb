-- received: the end of a ticket, that is of a sale that was won in Redis: its order is here, or it has none. It is written in the
-- transaction that writes the order, so that a ticket that is delivered again has no second effect. idempotency_key is that of a ticket that
-- was sold: within a run it is sold once. at_us is microseconds since the epoch by the replica's clock.
CREATE TABLE IF NOT EXISTS received (
  id              TEXT    NOT NULL PRIMARY KEY,
  product_id      INTEGER NOT NULL,
  run             INTEGER NOT NULL,
  quantity        INTEGER NOT NULL,
  outcome         TEXT    NOT NULL,
  order_id        TEXT    NULL,
  reason          TEXT    NULL,
  idempotency_key BLOB    NULL,
  deliveries      INTEGER NOT NULL,
  at_us           INTEGER NOT NULL
);

CREATE UNIQUE INDEX IF NOT EXISTS received_once ON received (product_id, run, idempotency_key);

CREATE INDEX IF NOT EXISTS received_outcome ON received (product_id, outcome);
