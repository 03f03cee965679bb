-- per_buyer is the most units that a buyer may hold or have ordered; NULL = no limit. late says what a payment
-- after the deadline gets: refund, or rehold while units are free. way says how the product is sold since its stock was set: absolute =
-- by a mode that writes the count that it has computed, which would overwrite a release; holds = units were held; counted = its stock is
-- computed from holds and orders; units = its stock is the free rows of the table unit; empty = none of them so far. Where segments is
-- -1, way alone says it (holds with a limit, counted, units), and modes that look at segments only refuse the product.
ALTER TABLE product_stock ADD COLUMN per_buyer INTEGER NULL;

ALTER TABLE product_stock ADD COLUMN late TEXT NOT NULL DEFAULT 'refund';

ALTER TABLE product_stock ADD COLUMN way TEXT NOT NULL DEFAULT '';

-- An order of a reservation has its run, its buyer and the reservation; NULL for modes that hold nothing. It may be returned once:
-- restocked says whether its units went back to the stock, or were written off.
ALTER TABLE orders ADD COLUMN run INTEGER NULL;

ALTER TABLE orders ADD COLUMN buyer BLOB NULL;

ALTER TABLE orders ADD COLUMN reservation_id TEXT NULL;

ALTER TABLE orders ADD COLUMN returned_us INTEGER NULL;

ALTER TABLE orders ADD COLUMN restocked INTEGER NOT NULL DEFAULT 0;

CREATE INDEX IF NOT EXISTS orders_reservation ON orders (reservation_id);

-- reservation: units of one or several products, held for a buyer until the deadline expires_us. All times are microseconds since the
-- epoch by the database's clock. extended_us is when the one extension was granted. late is the product's at the time of the hold.
CREATE TABLE IF NOT EXISTS reservation (
  id              TEXT NOT NULL PRIMARY KEY,
  idempotency_key BLOB NULL,
  mode            TEXT    NOT NULL,
  replica         TEXT    NOT NULL,
  buyer           BLOB  NULL,
  state           TEXT NOT NULL,
  expires_us      INTEGER         NOT NULL,
  extended_us     INTEGER         NULL,
  late            TEXT NOT NULL,
  created_us      INTEGER         NOT NULL,
  changed_us      INTEGER         NOT NULL
);

CREATE INDEX IF NOT EXISTS reservation_due ON reservation (state, expires_us, id);

-- reservation_item: run is the product's at the time of the hold. What is held of a product is the sum over the rows of its run whose
-- reservation is held: no counter that could go another way.
CREATE TABLE IF NOT EXISTS reservation_item (
  reservation_id TEXT NOT NULL,
  product_id     INTEGER NOT NULL,
  run            INTEGER NOT NULL,
  quantity       INTEGER NOT NULL,
  PRIMARY KEY (reservation_id, product_id)
);

CREATE INDEX IF NOT EXISTS reservation_item_product ON reservation_item (product_id, run);

-- reservation_event: each change of a state, for the judge. deadline_us is the deadline that was valid then. committed_us is stamped
-- after the COMMIT of a sweep has returned: the expiry was certain by then.
CREATE TABLE IF NOT EXISTS reservation_event (
  seq            INTEGER PRIMARY KEY AUTOINCREMENT,
  reservation_id TEXT NOT NULL,
  was            TEXT  NOT NULL,
  now            TEXT  NOT NULL,
  deadline_us    INTEGER      NOT NULL,
  by_replica     TEXT NOT NULL,
  at_us          INTEGER      NOT NULL,
  committed_us   INTEGER      NULL
);

CREATE INDEX IF NOT EXISTS reservation_event_of ON reservation_event (reservation_id);

-- payment: what a confirm came with. Its one end, an order or a refund, is written in the transaction of the answer.
CREATE TABLE IF NOT EXISTS payment (
  id             BLOB NOT NULL PRIMARY KEY,
  reservation_id TEXT NOT NULL,
  outcome        TEXT NOT NULL,
  order_id       TEXT NULL,
  at_us          INTEGER NOT NULL
);

CREATE INDEX IF NOT EXISTS payment_of ON payment (reservation_id);

-- buyer_units: what a buyer holds or has ordered, returns excepted, of a product with a limit.
CREATE TABLE IF NOT EXISTS buyer_units (
  product_id INTEGER        NOT NULL,
  run        INTEGER        NOT NULL,
  buyer      BLOB NOT NULL,
  units      INTEGER        NOT NULL,
  PRIMARY KEY (product_id, run, buyer)
);

-- unit: one row per unit of a product that is sold by units. Free = nobody has it and it is not written off.
CREATE TABLE IF NOT EXISTS unit (
  product_id     INTEGER NOT NULL,
  run            INTEGER NOT NULL,
  unit_id        INTEGER NOT NULL,
  reservation_id TEXT NULL,
  written_off    INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (product_id, run, unit_id)
);

CREATE INDEX IF NOT EXISTS unit_free ON unit (product_id, run, reservation_id);

CREATE INDEX IF NOT EXISTS unit_of ON unit (reservation_id);
