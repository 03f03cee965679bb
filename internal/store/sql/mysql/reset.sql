-- Creates the product or sets it back. lease_seq and version only ever rise. fence begins anew: who
-- counts the tokens is another store, which may have lost its count, and would then be refused for as long as it takes to catch up.
-- ?1 = id, ?2 = initial, ?3 = stock, ?4 = segments, ?5 = run.
INSERT INTO product_stock (id, initial, stock, segments, run) VALUES (?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE initial = VALUES(initial), stock = VALUES(stock), segments = VALUES(segments), run = VALUES(run),
  lease_seq = lease_seq + 1, version = version + 1, fence = 0
