-- name: cart_keys_page
-- The keys of the carts in a page of orders that are stored under another product. A key comes with the order that its answer names,
-- so it is in one page only. ?1 = product id, ?2 = the last order before the page, ?3 = the last order of the page.
SELECT k.idempotency_key, k.status, k.created_us, k.mode FROM orders o FORCE INDEX (orders_product)
JOIN orders f ON f.id = o.id AND f.product_id <> o.product_id
JOIN idempotent_log k ON k.idempotency_key = o.idempotency_key AND k.product_id = f.product_id AND INSTR(k.body, o.id) > 0
WHERE o.product_id = ? AND o.id > ? AND o.id <= ?

-- name: claim_key
-- The first to insert the key goes on; a rival blocks here until the first has ended, and then inserts nothing. ?1 = key,
-- ?2 = product id, ?3 = fingerprint of the payload, ?4 = microseconds.
INSERT IGNORE INTO idempotent_log (idempotency_key, product_id, fingerprint, body, created_us) VALUES (?, ?, ?, '', ?)

-- name: delete_cart_keys
-- Deletes the keys of carts that contain a product and are stored under another one. The answer must be that of the cart: another request
-- may have used the key since it was purged, and would be executed again without it. ?1 = product id.
DELETE k FROM orders o
JOIN orders f ON f.id = o.id AND f.product_id <> o.product_id
JOIN idempotent_log k ON k.idempotency_key = o.idempotency_key AND k.product_id = f.product_id AND INSTR(k.body, o.id) > 0
WHERE o.product_id = ?

-- name: insert_answers
-- Stores first answers. If a key exists already, nothing is written and its row does not count as affected. A rival's uncommitted key
-- blocks until the rival has ended. One tuple per answer: ?1 key, ?2 product, ?3 fingerprint, ?4 status, ?5 body, ?6 microseconds, ?7
-- mode.
INSERT INTO idempotent_log (idempotency_key, product_id, fingerprint, status, body, created_us, mode)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE idempotency_key = VALUES(idempotency_key)

-- name: orders_page
-- A page of the orders of a product by id, which begins with the time; the index on the product has the id after it. ?1 = product id,
-- ?2 = the last order of the page before, ?3 = the last order to read, ?4 = how many.
SELECT id, product_id, quantity, remaining, mode, replica, idempotency_key, fence, created_us, COALESCE(reservation_id, ''), id
FROM orders FORCE INDEX (orders_product) WHERE product_id = ? AND id > ? AND id <= ?
AND COALESCE(run, 0) IN (0, (SELECT p.run FROM product_stock p WHERE p.id = product_id))
ORDER BY id LIMIT ?

-- name: read_locked
-- Reads the newest committed row and keeps it until the transaction ends. ?1 = product id.
SELECT stock, lease_seq, version, CAST(updated_at AS CHAR), segments, run FROM product_stock WHERE id = ? FOR UPDATE

-- name: reset
-- Creates the product or resets it. lease_seq and version only ever rise. fence starts again, because another store counts the tokens: if
-- that store has lost its counter, its tokens would be refused until they have caught up. ?1 = id, ?2 = initial, ?3 = stock, ?4 =
-- segments, ?5 = run, ?6 = units per buyer, ?7 = late, ?8 = way, ?9 = longest hold in milliseconds, ?10 = extensions.
INSERT INTO product_stock (id, initial, stock, segments, run, per_buyer, late, way, max_hold_ms, extends) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE initial = VALUES(initial), stock = VALUES(stock), segments = VALUES(segments), run = VALUES(run),
  per_buyer = VALUES(per_buyer), late = VALUES(late), way = VALUES(way), max_hold_ms = VALUES(max_hold_ms), extends = VALUES(extends),
  lease_seq = lease_seq + 1, version = version + 1, fence = 0

-- name: set_updated
-- Writes the computed count, unless the row's time differs from the one read; two writes in one second have the same time. The server
-- sets the time by itself. ?1 = stock, ?2 = product id, ?3 = time as read. No row = refused.
UPDATE product_stock SET stock = ?, lease_seq = lease_seq + 1, version = version + 1 WHERE id = ? AND updated_at = ?
AND way <> 'holds'

-- name: take
-- Takes units only if they are there; the guard and the write are one statement. LAST_INSERT_ID(x) returns x, the remaining stock, with
-- the answer, so that the row is not locked during a second query. ?1 = quantity, ?2 = product id, ?3 = quantity. No row = refused.
UPDATE product_stock SET stock = LAST_INSERT_ID(stock - ?), lease_seq = lease_seq + 1, version = version + 1
WHERE id = ? AND stock >= ? AND segments = 0

-- name: take_of_run
-- take.sql for a log: only while the product is in the given run and has no holds. From now on it takes none: a record that was refused may
-- come again, and would find the units that came back. ?1 = quantity, ?2 = product id, ?3 = quantity, ?4 = run. No row = refused.
UPDATE product_stock SET stock = LAST_INSERT_ID(stock - ?), lease_seq = lease_seq + 1, version = version + 1, way = 'absolute'
WHERE id = ? AND stock >= ? AND segments = 0 AND run = ? AND way IN ('', 'absolute')

-- name: totals
-- The number of a product's orders and of their units, those written off and those put back, and for reading pages the position before the
-- first order, and the last order. ?1, ?2, ?3 = product id.
SELECT COUNT(*), COALESCE(SUM(quantity), 0),
  (SELECT COALESCE(SUM(b.quantity), 0) FROM order_return b WHERE b.product_id = ? AND b.restocked = 0),
  (SELECT COALESCE(SUM(b.quantity), 0) FROM order_return b WHERE b.product_id = ? AND b.restocked = 1), '', COALESCE(MAX(id), '') FROM orders WHERE product_id = ?
AND COALESCE(run, 0) IN (0, (SELECT p.run FROM product_stock p WHERE p.id = product_id))

-- name: unkey_carts
-- Removes the key from the other rows of the carts that contain a product, because its answer will be deleted: so no order has a key
-- without an answer. The answer to another request with the key stays, see delete_cart_keys.sql. ?1 = product id.
UPDATE orders o
JOIN orders f ON f.id = o.id AND f.product_id <> o.product_id
JOIN idempotent_log k ON k.idempotency_key = o.idempotency_key AND INSTR(k.body, o.id) > 0
SET f.idempotency_key = NULL WHERE o.product_id = ?

-- name: clock
-- Microseconds since the epoch by the database's clock, at the start of this statement: read it after the lock.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))

-- name: hold_read
-- A reservation, by a plain read. ?1 = id.
SELECT id, idempotency_key, mode, replica, COALESCE(buyer, ''), state, expires_us, COALESCE(extended_us, 0), late, created_us,
  changed_us FROM reservation WHERE id = ?

-- name: hold_lock
-- A reservation, locked until the transaction ends. ?1 = id.
SELECT id, idempotency_key, mode, replica, COALESCE(buyer, ''), state, expires_us, COALESCE(extended_us, 0), late, created_us,
  changed_us FROM reservation WHERE id = ? FOR UPDATE

-- name: hold_due
-- Locks overdue reservations after the last one that was looked at, unless somebody else has locked them: a sweep does not wait for one
-- while others are due, and two sweeps share the work. ?1 = deadline of the last, ?2 = the same, ?3 = id of the last, ?4 = how many.
SELECT id, expires_us FROM reservation FORCE INDEX (reservation_due) WHERE state = 'held' AND (expires_us > ? OR expires_us = ? AND id > ?)
AND expires_us <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY expires_us, id LIMIT ? FOR UPDATE SKIP LOCKED

-- name: hold_due_of
-- Locks those of some reservations that are held, likewise. ?... = reservations.
SELECT r.id, r.expires_us FROM reservation r FORCE INDEX (PRIMARY) WHERE r.id IN (?) AND r.state = 'held' ORDER BY r.id FOR UPDATE SKIP LOCKED

-- name: holds_items
-- hold_items of some reservations, with what a sweep asks of each. ?... = reservations.
SELECT r.id, r.mode, COALESCE(r.buyer, ''), r.state, r.expires_us, i.product_id, i.quantity, i.run, COALESCE(p.run, 0),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM reservation r JOIN reservation_item i ON i.reservation_id = r.id LEFT JOIN product_stock p ON p.id = i.product_id
WHERE r.id IN (?) ORDER BY r.id, i.product_id

-- name: products_free
-- Which of some products nobody has locked at this moment; the locks end with the statement. ?... = products.
SELECT id FROM product_stock WHERE id IN (?) FOR UPDATE SKIP LOCKED

-- name: buyer_row
-- Makes the row of a buyer, locked for writing at once: INSERT IGNORE would lock it for reading, and two of them would be a deadlock.
-- ?1 = product, ?2 = run, ?3 = buyer.
INSERT INTO buyer_units (product_id, run, buyer, units) VALUES (?, ?, ?, 0)
ON DUPLICATE KEY UPDATE units = units

-- name: units_take
-- Locks free units that nobody else has locked, from a place on. ?1 = product, ?2 = run, ?3 = place, ?4 = how many.
SELECT unit_id FROM unit FORCE INDEX (unit_free) WHERE product_id = ? AND run = ? AND reservation_id IS NULL AND written_off = 0
AND unit_id >= ?
ORDER BY unit_id LIMIT ? FOR UPDATE SKIP LOCKED

-- name: units_spare
-- Locks free units that nobody else has locked, the last first. ?1 = product, ?2 = run, ?3 = how many.
SELECT unit_id FROM unit FORCE INDEX (unit_free) WHERE product_id = ? AND run = ? AND reservation_id IS NULL AND written_off = 0
ORDER BY unit_id DESC LIMIT ? FOR UPDATE SKIP LOCKED

-- name: units_give
-- Frees as many units of reservations or orders as are given back. ?1 = product, ?2 = run, ?... = their ids, then how many.
UPDATE unit SET reservation_id = NULL WHERE product_id = ? AND run = ? AND reservation_id IN (?) AND written_off = 0 ORDER BY unit_id LIMIT ?

-- name: units_write_off
-- ?1 = product, ?2 = reservation or order, ?3 = how many.
UPDATE unit SET written_off = 1 WHERE product_id = ? AND reservation_id = ? AND written_off = 0 ORDER BY unit_id LIMIT ?

-- name: order_lock
-- An order that may be returned, locked until the transaction ends. ?1 = order, ?2 = product.
SELECT quantity, COALESCE(run, 0), COALESCE(buyer, ''), COALESCE(reservation_id, ''), mode
FROM orders WHERE id = ? AND product_id = ? FOR UPDATE

-- name: hold_items
-- The items of a reservation, each with the run that its product is in now and how it may be extended, in the order of the locks, and the
-- clock: read them after the lock. ?1 = reservation.
SELECT i.product_id, i.quantity, i.run, COALESCE(p.run, 0), COALESCE(p.max_hold_ms, 0) * 1000, COALESCE(p.extends, 1),
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM reservation_item i LEFT JOIN product_stock p ON p.id = i.product_id WHERE i.reservation_id = ? ORDER BY i.product_id

-- name: hold_take
-- take_of_run, also of a product with a limit per buyer. ?1 = quantity, ?2 = product id, ?3 = quantity, ?4 = run. No row = refused.
UPDATE product_stock SET stock = LAST_INSERT_ID(stock - ?), lease_seq = lease_seq + 1, version = version + 1
WHERE id = ? AND stock >= ? AND segments <= 0 AND run = ? AND way NOT IN ('counted', 'units')

-- name: hold_product
-- What a hold needs to know of a product, by a plain read, and the clock. ?1 = product id.
SELECT id, run, segments, stock, per_buyer, late, way, max_hold_ms * 1000,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FROM product_stock
WHERE id = ?

-- name: hold_event
-- Records a change of state right after the statement that makes it. If that has changed no row, was would be NULL, which the table refuses:
-- so the transaction fails, even if COMMIT is in the same packet. ?1 = reservation, ?2 = state before, ?3 = state now, ?4 = the deadline
-- valid then, ?5 = replica, ?6 = microseconds.
INSERT INTO reservation_event (reservation_id, was, now, deadline_us, by_replica, at_us)
VALUES (?, IF(ROW_COUNT() = 1, ?, NULL), ?, ?, ?, ?)

-- name: hold_change
-- hold_event of a change by a request that has a key. ?1 to ?6 = those of hold_event, ?7 = digest of the request's key, ?8 =
-- product of a part, ?9 = its quantity.
INSERT INTO reservation_event (reservation_id, was, now, deadline_us, by_replica, at_us, request, product_id, quantity)
VALUES (?, IF(ROW_COUNT() = 1, ?, NULL), ?, ?, ?, ?, ?, ?, ?)

-- name: holds_unchanged
-- Which of the given reservations have not changed for long. Locks them, since a late payment may be under way. ?1 = microseconds, ?... = reservations.
SELECT id FROM reservation WHERE changed_us < ? AND id IN (?) FOR UPDATE

-- name: received_insert
-- Writes the ends of tickets. If a ticket or a key has one already, nothing is written and its row does not count as affected. One tuple
-- per end: ?1 ticket, ?2 product, ?3 run, ?4 units, ?5 end, ?6 order, ?7 reason, ?8 key, ?9 deliveries, ?10 microseconds.
INSERT INTO received (id, product_id, run, quantity, outcome, order_id, reason, idempotency_key, deliveries, at_us)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE id = received.id

-- name: take_tickets
-- What tickets of a run have won in Redis. ?1 = quantity, ?2 = product id, ?3 = quantity, ?4 = run. No row = refused.
UPDATE product_stock SET stock = LAST_INSERT_ID(stock - ?), lease_seq = lease_seq + 1, version = version + 1
WHERE id = ? AND stock >= ? AND segments = 0 AND run = ?
