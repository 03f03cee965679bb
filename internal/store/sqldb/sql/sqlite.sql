-- name: cart_keys_page
-- The keys of the carts in a page of orders that are stored under another product. A key comes with the order that its answer names,
-- so it is in one page only. ?1 = product id, ?2 = the last order before the page, ?3 = the last order of the page.
SELECT k.idempotency_key, k.status, k.created_us, k.mode FROM orders o
JOIN orders f ON f.id = o.id AND f.product_id <> o.product_id
JOIN idempotent_log k ON k.idempotency_key = o.idempotency_key AND k.product_id = f.product_id AND INSTR(k.body, o.id) > 0
WHERE o.product_id = ? AND o.rowid > CAST(? AS INTEGER) AND o.rowid <= CAST(? AS INTEGER)

-- name: claim_key
-- The first to insert the key goes on; a rival waits for the database until the first has ended, and then inserts nothing.
-- ?1 = key, ?2 = product id, ?3 = fingerprint of the payload, ?4 = microseconds.
INSERT OR IGNORE INTO idempotent_log (idempotency_key, product_id, fingerprint, body, created_us) VALUES (?, ?, ?, x'', ?)

-- name: delete_cart_keys
-- Deletes the keys of carts that contain a product and are stored under another one. The answer must be that of the cart: another request
-- may have used the key since it was purged, and would be executed again without it. ?1 = product id.
DELETE FROM idempotent_log WHERE idempotency_key IN (
  SELECT k.idempotency_key FROM orders o
  JOIN orders f ON f.id = o.id AND f.product_id <> o.product_id
  JOIN idempotent_log k ON k.idempotency_key = o.idempotency_key AND k.product_id = f.product_id AND INSTR(k.body, o.id) > 0
  WHERE o.product_id = ?
)

-- name: insert_answers
-- Stores first answers. If a key exists already, nothing is written and its row does not count as affected. One tuple per answer: ?1 key,
-- ?2 product, ?3 fingerprint, ?4 status, ?5 body, ?6 microseconds, ?7 mode.
INSERT INTO idempotent_log (idempotency_key, product_id, fingerprint, status, body, created_us, mode)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (idempotency_key) DO NOTHING

-- name: orders_page
-- A page of the orders of a product in the order of insertion: by rowid, which every index entry ends with. ?1 = product id,
-- ?2 = the last order of the page before, ?3 = the last order to read, ?4 = how many.
SELECT id, product_id, quantity, remaining, mode, replica, idempotency_key, fence, created_us, COALESCE(reservation_id, ''), rowid
FROM orders WHERE product_id = ? AND rowid > CAST(? AS INTEGER) AND rowid <= CAST(? AS INTEGER)
AND COALESCE(run, 0) IN (0, (SELECT p.run FROM product_stock p WHERE p.id = product_id))
ORDER BY rowid LIMIT ?

-- name: read_locked
-- A transaction has the whole database locked from its beginning: see _txlock. ?1 = product id.
SELECT stock, lease_seq, version, CAST(updated_at AS CHAR), segments, run FROM product_stock WHERE id = ?

-- name: reset
-- Creates the product or resets it. lease_seq and version only ever rise. fence starts again, because another store counts the tokens: if
-- that store has lost its counter, its tokens would be refused until they have caught up. ?1 = id, ?2 = initial, ?3 = stock, ?4 =
-- segments, ?5 = run, ?6 = units per buyer, ?7 = late, ?8 = way, ?9 = longest hold in milliseconds, ?10 = extensions.
INSERT INTO product_stock (id, initial, stock, segments, run, per_buyer, late, way, max_hold_ms, extends, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, CURRENT_TIMESTAMP)
ON CONFLICT (id) DO UPDATE SET initial = excluded.initial, stock = excluded.stock, segments = excluded.segments, run = excluded.run,
  per_buyer = excluded.per_buyer, late = excluded.late, way = excluded.way, max_hold_ms = excluded.max_hold_ms, extends = excluded.extends,
  lease_seq = lease_seq + 1, version = version + 1, fence = 0, updated_at = excluded.updated_at

-- name: set_updated
-- Writes the computed count, unless the row's time differs from the one read; two writes in one second have the same time. ?1 = stock, ?2
-- = product id, ?3 = time as read. No row = refused.
UPDATE product_stock SET stock = ?, lease_seq = lease_seq + 1, version = version + 1, updated_at = CURRENT_TIMESTAMP
WHERE id = ? AND updated_at = ?
AND way <> 'holds'

-- name: take
-- Takes units only if they are there; the guard and the write are one statement. ?1 = quantity, ?2 = product id,
-- ?3 = quantity. No row = refused.
UPDATE product_stock SET stock = stock - ?, lease_seq = lease_seq + 1, version = version + 1
WHERE id = ? AND stock >= ? AND segments = 0 RETURNING stock

-- name: take_of_run
-- take.sql for a log: only while the product is in the given run and has no holds. From now on it takes none: a record that was refused may
-- come again, and would find the units that came back. ?1 = quantity, ?2 = product id, ?3 = quantity, ?4 = run. No row = refused.
UPDATE product_stock SET stock = stock - ?, lease_seq = lease_seq + 1, version = version + 1, way = 'absolute'
WHERE id = ? AND stock >= ? AND segments = 0 AND run = ? AND way IN ('', 'absolute') RETURNING stock

-- name: totals
-- The number of a product's orders and of their units, those written off and those put back, and for reading pages the position before the
-- first order, and the last order. ?1, ?2, ?3 = product id.
SELECT COUNT(*), COALESCE(SUM(quantity), 0),
  (SELECT COALESCE(SUM(b.quantity), 0) FROM order_return b WHERE b.product_id = ? AND b.restocked = 0),
  (SELECT COALESCE(SUM(b.quantity), 0) FROM order_return b WHERE b.product_id = ? AND b.restocked = 1), '0', COALESCE(MAX(rowid), 0) FROM orders WHERE product_id = ?
AND COALESCE(run, 0) IN (0, (SELECT p.run FROM product_stock p WHERE p.id = product_id))

-- name: unkey_carts
-- Removes the key from the other rows of the carts that contain a product, because its answer will be deleted: so no order has a key
-- without an answer. The answer to another request with the key stays, see delete_cart_keys.sql. ?1 = product id.
UPDATE orders SET idempotency_key = NULL WHERE (id, product_id) IN (
  SELECT f.id, f.product_id FROM orders o
  JOIN orders f ON f.id = o.id AND f.product_id <> o.product_id
  JOIN idempotent_log k ON k.idempotency_key = o.idempotency_key AND INSTR(k.body, o.id) > 0
  WHERE o.product_id = ?
)

-- name: clock
-- Microseconds since the epoch by the database's clock, at the start of this statement: read it after the lock.
SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000

-- name: hold_read
-- A reservation, by a plain read. ?1 = id.
SELECT id, idempotency_key, mode, replica, COALESCE(buyer, ''), state, expires_us, COALESCE(extended_us, 0), late, created_us,
  changed_us FROM reservation WHERE id = ?

-- name: hold_lock
-- A reservation, locked until the transaction ends. ?1 = id.
SELECT id, idempotency_key, mode, replica, COALESCE(buyer, ''), state, expires_us, COALESCE(extended_us, 0), late, created_us,
  changed_us FROM reservation WHERE id = ?

-- name: hold_due
-- Overdue reservations after the last one that was looked at, by a plain read. ?1 = deadline of the last, ?2 = the same, ?3 = id of the
-- last, ?4 = how many.
SELECT id, expires_us FROM reservation WHERE state = 'held' AND (expires_us > ? OR expires_us = ? AND id > ?)
AND expires_us <= CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 ORDER BY expires_us, id LIMIT ?

-- name: hold_due_of
-- Those of some reservations that are held. ?... = reservations.
SELECT id, expires_us FROM reservation WHERE id IN (?) AND state = 'held' ORDER BY id

-- name: holds_items
-- hold_items of some reservations, with what a sweep asks of each. ?... = reservations.
SELECT r.id, r.mode, COALESCE(r.buyer, ''), r.state, r.expires_us, i.product_id, i.quantity, i.run, COALESCE(p.run, 0),
  CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
FROM reservation r JOIN reservation_item i ON i.reservation_id = r.id LEFT JOIN product_stock p ON p.id = i.product_id
WHERE r.id IN (?) ORDER BY r.id, i.product_id

-- name: products_free
-- Nobody locks a row. ?... = products.
SELECT id FROM product_stock WHERE id IN (?)

-- name: buyer_row
-- Makes the row of a buyer, locked for writing at once: INSERT IGNORE would lock it for reading, and two of them would be a deadlock.
-- ?1 = product, ?2 = run, ?3 = buyer.
INSERT INTO buyer_units (product_id, run, buyer, units) VALUES (?, ?, ?, 0)
ON CONFLICT DO NOTHING

-- name: units_take
-- Free units. ?1 = product, ?2 = run, ?3 = how many.
SELECT unit_id FROM unit WHERE product_id = ? AND run = ? AND reservation_id IS NULL AND written_off = 0 ORDER BY unit_id LIMIT ?

-- name: units_spare
-- Free units, the last first. ?1 = product, ?2 = run, ?3 = how many.
SELECT unit_id FROM unit WHERE product_id = ? AND run = ? AND reservation_id IS NULL AND written_off = 0 ORDER BY unit_id DESC LIMIT ?

-- name: units_give
-- Frees as many units of reservations or orders as are given back. ?1 = product, ?2 = run, ?... = their ids, then how many.
UPDATE unit SET reservation_id = NULL WHERE product_id = ? AND run = ? AND reservation_id IN (?) AND written_off = 0 AND 0 < ?

-- name: units_write_off
-- ?1 = product, ?2 = reservation or order, ?3 = how many.
UPDATE unit SET written_off = 1 WHERE product_id = ? AND reservation_id = ? AND written_off = 0 AND 0 < ?

-- name: order_lock
-- An order that may be returned, locked until the transaction ends. ?1 = order, ?2 = product.
SELECT quantity, COALESCE(run, 0), COALESCE(buyer, ''), COALESCE(reservation_id, ''), mode
FROM orders WHERE id = ? AND product_id = ?

-- name: hold_items
-- The items of a reservation, each with the run that its product is in now and how it may be extended, in the order of the locks, and the
-- clock: read them after the lock. ?1 = reservation.
SELECT i.product_id, i.quantity, i.run, COALESCE(p.run, 0), COALESCE(p.max_hold_ms, 0) * 1000, COALESCE(p.extends, 1),
  CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
FROM reservation_item i LEFT JOIN product_stock p ON p.id = i.product_id WHERE i.reservation_id = ? ORDER BY i.product_id

-- name: hold_take
-- take_of_run, also of a product with a limit per buyer. ?1 = quantity, ?2 = product id, ?3 = quantity, ?4 = run. No row = refused.
UPDATE product_stock SET stock = stock - ?, lease_seq = lease_seq + 1, version = version + 1, updated_at = CURRENT_TIMESTAMP
WHERE id = ? AND stock >= ? AND segments <= 0 AND run = ? AND way NOT IN ('counted', 'units')
RETURNING stock

-- name: hold_product
-- What a hold needs to know of a product, by a plain read, and the clock. ?1 = product id.
SELECT id, run, segments, stock, per_buyer, late, way, max_hold_ms * 1000,
  CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 FROM product_stock
WHERE id = ?

-- name: hold_event
-- Records a change of state right after the statement that makes it. If that has changed no row, was would be NULL, which the table refuses:
-- so the transaction fails, even if COMMIT is in the same packet. ?1 = reservation, ?2 = state before, ?3 = state now, ?4 = the deadline
-- valid then, ?5 = replica, ?6 = microseconds.
INSERT INTO reservation_event (reservation_id, was, now, deadline_us, by_replica, at_us)
VALUES (?, CASE WHEN changes() = 1 THEN ? END, ?, ?, ?, ?)

-- name: hold_change
-- hold_event of a change by a request that has a key. ?1 to ?6 = those of hold_event, ?7 = digest of the request's key, ?8 =
-- product of a part, ?9 = its quantity.
INSERT INTO reservation_event (reservation_id, was, now, deadline_us, by_replica, at_us, request, product_id, quantity)
VALUES (?, CASE WHEN changes() = 1 THEN ? END, ?, ?, ?, ?, ?, ?, ?)

-- name: holds_unchanged
-- Which of the given reservations have not changed for long. ?1 = microseconds, ?... = reservations.
SELECT id FROM reservation WHERE changed_us < ? AND id IN (?)

-- name: received_insert
-- Writes the ends of tickets. If a ticket or a key has one already, nothing is written and its row does not count as affected. One tuple
-- per end: ?1 ticket, ?2 product, ?3 run, ?4 units, ?5 end, ?6 order, ?7 reason, ?8 key, ?9 deliveries, ?10 microseconds.
INSERT INTO received (id, product_id, run, quantity, outcome, order_id, reason, idempotency_key, deliveries, at_us)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: take_tickets
-- What tickets of a run have won in Redis. ?1 = quantity, ?2 = product id, ?3 = quantity, ?4 = run. No row = refused.
UPDATE product_stock SET stock = stock - ?, lease_seq = lease_seq + 1, version = version + 1
WHERE id = ? AND stock >= ? AND segments = 0 AND run = ? RETURNING stock
