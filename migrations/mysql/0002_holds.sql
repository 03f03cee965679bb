-- per_buyer is the most units that a buyer may hold or have ordered; NULL = no limit. late says what a payment
-- after the deadline gets: refund, or rehold while units are free. way says how the product is sold since its stock was set: absolute =
-- by a mode that writes the count that it has computed, which would overwrite a release; holds = units were held; counted = its stock is
-- computed from holds and orders; units = its stock is the free rows of the table unit; empty = none of them so far. Where segments is
-- -1, way alone says it (holds with a limit, counted, units), and modes that look at segments only refuse the product.
ALTER TABLE product_stock
  ADD COLUMN per_buyer BIGINT NULL,
  ADD COLUMN late      VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'refund',
  ADD COLUMN way       VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '';

-- An order of a reservation has its run, its buyer and the reservation; NULL for modes that hold nothing. It may be returned once:
-- restocked says whether its units went back to the stock, or were written off.
ALTER TABLE orders
  ADD COLUMN run            BIGINT NULL,
  ADD COLUMN buyer          VARBINARY(64) NULL,
  ADD COLUMN reservation_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  ADD COLUMN returned_us    BIGINT NULL,
  ADD COLUMN restocked      TINYINT NOT NULL DEFAULT 0,
  ADD KEY orders_reservation (reservation_id);

-- reservation: units of one or several products, held for a buyer until the deadline expires_us. All times are microseconds since the
-- epoch by the database's clock. extended_us is when the one extension was granted. late is the product's at the time of the hold.
CREATE TABLE IF NOT EXISTS reservation (
  id              VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  idempotency_key VARBINARY(255) NULL,
  mode            VARCHAR(64)    NOT NULL,
  replica         VARCHAR(64)    NOT NULL,
  buyer           VARBINARY(64)  NULL,
  state           VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  expires_us      BIGINT         NOT NULL,
  extended_us     BIGINT         NULL,
  late            VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  created_us      BIGINT         NOT NULL,
  changed_us      BIGINT         NOT NULL,
  KEY reservation_due (state, expires_us, id)
) ENGINE = InnoDB;

-- reservation_item: run is the product's at the time of the hold. What is held of a product is the sum over the rows of its run whose
-- reservation is held: no counter that could go another way.
CREATE TABLE IF NOT EXISTS reservation_item (
  reservation_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  product_id     BIGINT NOT NULL,
  run            BIGINT NOT NULL,
  quantity       BIGINT NOT NULL,
  PRIMARY KEY (reservation_id, product_id),
  KEY reservation_item_product (product_id, run)
) ENGINE = InnoDB;

-- reservation_event: each change of a state, for the judge. deadline_us is the deadline that was valid then. committed_us is stamped
-- after the COMMIT of a sweep has returned: the expiry was certain by then.
CREATE TABLE IF NOT EXISTS reservation_event (
  seq            BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  reservation_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  was            VARCHAR(9)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  now            VARCHAR(9)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  deadline_us    BIGINT      NOT NULL,
  by_replica     VARCHAR(64) NOT NULL,
  at_us          BIGINT      NOT NULL,
  committed_us   BIGINT      NULL,
  KEY reservation_event_of (reservation_id)
) ENGINE = InnoDB;

-- payment: what a confirm came with. Its one end, an order or a refund, is written in the transaction of the answer.
CREATE TABLE IF NOT EXISTS payment (
  id             VARBINARY(255) NOT NULL PRIMARY KEY,
  reservation_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  outcome        VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  order_id       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  at_us          BIGINT NOT NULL,
  KEY payment_of (reservation_id)
) ENGINE = InnoDB;

-- buyer_units: what a buyer holds or has ordered, returns excepted, of a product with a limit.
CREATE TABLE IF NOT EXISTS buyer_units (
  product_id BIGINT        NOT NULL,
  run        BIGINT        NOT NULL,
  buyer      VARBINARY(64) NOT NULL,
  units      BIGINT        NOT NULL,
  PRIMARY KEY (product_id, run, buyer)
) ENGINE = InnoDB;

-- unit: one row per unit of a product that is sold by units. Free = nobody has it and it is not written off.
CREATE TABLE IF NOT EXISTS unit (
  product_id     BIGINT  NOT NULL,
  run            BIGINT  NOT NULL,
  unit_id        INT     NOT NULL,
  reservation_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  written_off    TINYINT NOT NULL DEFAULT 0,
  PRIMARY KEY (product_id, run, unit_id),
  KEY unit_free (product_id, run, reservation_id),
  KEY unit_of (reservation_id)
) ENGINE = InnoDB;
