-- max_hold_ms is the longest hold of a product, and the longest extension from its request on; extends is how often a reservation may be
-- extended.
ALTER TABLE product_stock ADD COLUMN max_hold_ms INTEGER NOT NULL DEFAULT 3600000;

ALTER TABLE product_stock ADD COLUMN extends INTEGER NOT NULL DEFAULT 1;

-- request is a digest of the key of an extension or of a cancelled part, which the same key does not do again. quantity is how many units
-- a part gave back, and product_id of which line, NULL if the reservation ended with it.
ALTER TABLE reservation_event ADD COLUMN request TEXT NULL;

ALTER TABLE reservation_event ADD COLUMN product_id INTEGER NULL;

ALTER TABLE reservation_event ADD COLUMN quantity INTEGER NOT NULL DEFAULT 0;

-- A reservation is deleted some time after its end, which may come a week before its deadline.
CREATE INDEX reservation_ended ON reservation (state, changed_us, id);

-- order_return: what came back of an order at once, by the digest of its request's key; '' = all that was left. The sum is what came back
-- in all: no counter that could go another way.
CREATE TABLE IF NOT EXISTS order_return (
  order_id   TEXT    NOT NULL,
  product_id INTEGER NOT NULL,
  request    TEXT    NOT NULL,
  quantity   INTEGER NOT NULL,
  restocked  INTEGER NOT NULL,
  at_us      INTEGER NOT NULL,
  PRIMARY KEY (order_id, product_id, request)
);

CREATE INDEX IF NOT EXISTS order_return_product ON order_return (product_id);

INSERT INTO order_return (order_id, product_id, request, quantity, restocked, at_us)
SELECT id, product_id, '', quantity, restocked, returned_us FROM orders WHERE returned_us IS NOT NULL;

ALTER TABLE orders DROP COLUMN returned_us;

ALTER TABLE orders DROP COLUMN restocked;
