-- max_hold_ms is the longest hold of a product, and the longest extension from its request on; extends is how often a reservation may be
-- extended.
ALTER TABLE product_stock
  ADD COLUMN max_hold_ms BIGINT NOT NULL DEFAULT 3600000,
  ADD COLUMN extends     INT    NOT NULL DEFAULT 1;

-- request is a digest of the key of an extension or of a cancelled part, which the same key does not do again. quantity is how many units
-- a part gave back, and product_id of which line, NULL if the reservation ended with it.
ALTER TABLE reservation_event
  ADD COLUMN request    CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  ADD COLUMN product_id BIGINT NULL,
  ADD COLUMN quantity   BIGINT NOT NULL DEFAULT 0;

-- A reservation is deleted some time after its end, which may come a week before its deadline.
ALTER TABLE reservation ADD KEY reservation_ended (state, changed_us, id);

-- order_return: what came back of an order at once, by the digest of its request's key; '' = all that was left. The sum is what came back
-- in all: no counter that could go another way.
CREATE TABLE IF NOT EXISTS order_return (
  order_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  product_id BIGINT  NOT NULL,
  request    CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  quantity   BIGINT  NOT NULL,
  restocked  TINYINT NOT NULL,
  at_us      BIGINT  NOT NULL,
  PRIMARY KEY (order_id, product_id, request),
  KEY order_return_product (product_id)
) ENGINE = InnoDB;

INSERT INTO order_return (order_id, product_id, request, quantity, restocked, at_us)
SELECT id, product_id, '', quantity, restocked, returned_us FROM orders WHERE returned_us IS NOT NULL;

ALTER TABLE orders DROP COLUMN returned_us, DROP COLUMN restocked;
