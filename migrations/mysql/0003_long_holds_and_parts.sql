-- max_hold_ms is the longest hold of a product, and the longest extension from its request on; extends is how often a reservation may be
-- extended.
ALTER TABLE product_stock
  ADD COLUMN max_hold_ms BIGINT NOT NULL DEFAULT 3600000,
  ADD COLUMN extends     INT    NOT NULL DEFAULT 1;

-- request is a digest of the key of an extension: the same key is the same deadline.
ALTER TABLE reservation_event ADD COLUMN request CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL;

-- A reservation is deleted some time after its end, which may come a week before its deadline.
ALTER TABLE reservation ADD KEY reservation_ended (state, changed_us, id);
