-- Creates the product or resets it. lease_seq and version only ever rise. fence starts again, because another store counts the tokens: if
-- that store has lost its counter, its tokens would be refused until they have caught up. ?1 = id, ?2 = initial, ?3 = stock, ?4 =
-- segments, ?5 = run.
INSERT INTO product_stock (id, initial, stock, segments, run) VALUES (?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE initial = VALUES(initial), stock = VALUES(stock), segments = VALUES(segments), run = VALUES(run),
  lease_seq = lease_seq + 1, version = version + 1, fence = 0
