-- name: any_sold
-- How many of the given orders of a product exist. ?1 = product id, ?... = ids.
SELECT COUNT(*) FROM orders WHERE product_id = ? AND id IN
(?)

-- name: cart_keys_of
-- The keys of carts that contain a product and are stored under another one, each once: older orders with the key are not in its answer.
-- ?1 = product id.
SELECT k.idempotency_key, k.status, k.created_us, k.mode FROM orders o
JOIN orders f ON f.id = o.id AND f.product_id <> o.product_id
JOIN idempotent_log k ON k.idempotency_key = o.idempotency_key AND k.product_id = f.product_id AND INSTR(k.body, o.id) > 0
WHERE o.product_id = ?

-- name: adjust_lock
-- Locks a product for an adjustment: whoever compares lease_seq notices it. ?1 = product id. No row = there is none.
UPDATE product_stock SET lease_seq = lease_seq + 1 WHERE id = ?

-- name: adjust
-- Adds units to what there was at first and to what there is. ?1 = delta, ?2 = delta, ?3 = product id.
UPDATE product_stock SET initial = initial + ?, stock = stock + ?, version = version + 1 WHERE id = ?

-- name: adjusted_by
-- What an adjustment under a key was. ?1 = product id, ?2 = run, ?3 = key.
SELECT delta, reason, idempotency_key, initial, stock, at_us FROM adjustment WHERE product_id = ? AND run = ? AND idempotency_key = ?

-- name: adjustment_insert
-- Writes an adjustment down, or the setting of a run. ?1 = product id, ?2 = run, ?3 = key, NULL = the setting, ?4 = delta, ?5 = reason,
-- ?6 = initial stock with it, ?7 = free units after it, ?8 = microseconds.
INSERT INTO adjustment (product_id, run, idempotency_key, delta, reason, initial, stock, at_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: adjustments_of
-- The newest adjustments of a run, the newest first. ?1 = product id, ?2 = run, ?3 = how many.
SELECT delta, reason, idempotency_key, initial, stock, at_us FROM adjustment WHERE product_id = ? AND run = ? ORDER BY seq DESC LIMIT ?

-- name: adjustments_sum
-- How many adjustments a run has, and their sum. ?1 = product id, ?2 = run.
SELECT COUNT(*), COALESCE(SUM(delta), 0) FROM adjustment WHERE product_id = ? AND run = ?

-- name: delete_adjustments
-- ?1 = product id.
DELETE FROM adjustment WHERE product_id = ?

-- name: delete_keys
-- ?1 = product id.
DELETE FROM idempotent_log WHERE product_id = ?

-- name: delete_lock
-- Deletes a lock that has no expiry, whoever holds it. ?1 = lock key.
DELETE FROM record_lock WHERE lock_key = ? AND expires_us IS NULL

-- name: delete_buyers
-- Deletes the units that count for the buyers' limits, of all runs. ?1 = product id.
DELETE FROM buyer_units WHERE product_id = ?

-- name: delete_orders
-- ?1 = product id.
DELETE FROM orders WHERE product_id = ?

-- name: delete_received
-- ?1 = product id.
DELETE FROM received WHERE product_id = ?

-- name: delete_reconciliations
-- ?1 = product id.
DELETE FROM reconciliation WHERE product_id = ?

-- name: facts
-- What the ledger shows of a product. ?1 = product id.
SELECT initial, stock, lease_seq, segments, way, run FROM product_stock WHERE id = ?

-- name: hold_give
-- Puts units back into the run that they were taken in. ?1 = quantity, ?2 = product id, ?3 = run.
UPDATE product_stock SET stock = stock + ?, lease_seq = lease_seq + 1, version = version + 1 WHERE id = ? AND run = ?

-- name: hold_insert
-- ?1 id, ?2 key, ?3 mode, ?4 replica, ?5 buyer, ?6 state, ?7 deadline, ?8 late, ?9 now, ?10 now.
INSERT INTO reservation (id, idempotency_key, mode, replica, buyer, state, expires_us, late, created_us, changed_us)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: hold_item_insert
-- ?1 = reservation, ?2 = product, ?3 = run, ?4 = quantity.
INSERT INTO reservation_item (reservation_id, product_id, run, quantity) VALUES (?, ?, ?, ?)

-- name: hold_way
-- Says how a product is sold from now on, unless it is sold in another way already. One that has a limit per buyer, or was adjusted, is for
-- holds, until a mode that counts finds its counter untouched and no reservation. ?1 = way, ?2 = segments, ?3 = product, ?4 = run, ?5 = way.
-- No row = it is.
UPDATE product_stock SET way = ?, segments = ?, lease_seq = lease_seq + 1 WHERE id = ? AND run = ?
AND (way = '' OR way = 'holds' AND stock = initial AND ? = 'counted'
  AND NOT EXISTS (SELECT 1 FROM reservation_item i WHERE i.product_id = product_stock.id AND i.run = product_stock.run))

-- name: hold_late
-- What a late payment gets from now on. ?1 = late, ?2 = now, ?3 = id.
UPDATE reservation SET late = ?, changed_us = ? WHERE id = ?

-- name: hold_set
-- The trusting change of a state: whatever the state is now. ?1 = new state, ?2 = now, ?3 = id.
UPDATE reservation SET state = ?, changed_us = ? WHERE id = ?

-- name: hold_free
-- The units of a counted product that are neither held nor ordered, by a plain read. ?1 = product, ?2 = run.
SELECT p.initial
  - (SELECT COALESCE(SUM(i.quantity), 0) FROM reservation_item i JOIN reservation r ON r.id = i.reservation_id
     WHERE i.product_id = p.id AND i.run = p.run AND r.state = 'held')
  - (SELECT COALESCE(SUM(o.quantity), 0) FROM orders o WHERE o.product_id = p.id AND COALESCE(o.run, 0) IN (0, p.run))
  + (SELECT COALESCE(SUM(b.quantity), 0) FROM order_return b WHERE b.product_id = p.id AND b.restocked = 1)
FROM product_stock p WHERE p.id = ? AND p.run = ?

-- name: received
-- The ends of some tickets. ?... = ids.
SELECT id, product_id, run, quantity, outcome, order_id, reason, idempotency_key, deliveries FROM received WHERE id IN
(?)

-- name: received_any
-- Whether tickets of a run have ended. ?1 = product id, ?2 = run.
SELECT EXISTS (SELECT 1 FROM received WHERE product_id = ? AND run = ?)

-- name: received_page
-- Tickets of a product's run that have ended in one way, after an id. ?1 = product id, ?2 = end, ?3 = id, ?4 = how many.
SELECT r.id, r.product_id, r.run, r.quantity, r.outcome, r.order_id, r.reason, r.idempotency_key, r.deliveries FROM received r
WHERE r.product_id = ? AND r.outcome = ? AND r.id > ? AND r.run = (SELECT p.run FROM product_stock p WHERE p.id = r.product_id)
ORDER BY r.id LIMIT ?

-- name: received_replace
-- Writes the ends of tickets, in place of those that they have. One tuple per end, as for received_insert.
REPLACE INTO received (id, product_id, run, quantity, outcome, order_id, reason, idempotency_key, deliveries, at_us)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: received_sold
-- Those of some tickets that were sold. ?... = ids.
SELECT id FROM received WHERE outcome = 'sold' AND id IN
(?)

-- name: reconciled
-- The last generation in the journal of corrections, and what they have taken from Redis' count for orders that Redis did not know of, below
-- zero. A row above the generation that Redis has was undone by a failover, and the row of that generation was made, whether its answer
-- came or not. ?1, ?2 = that generation, ?3 = product id, ?4 = run.
SELECT COALESCE(MAX(generation), 0), COALESCE(SUM(CASE WHEN generation < ? AND applied_us IS NOT NULL OR generation = ?
  THEN -forgotten ELSE 0 END), 0)
FROM reconciliation WHERE product_id = ? AND run = ?

-- name: reconciliation_insert
-- ?1 = product id, ?2 = run, ?3 = generation, ?4 = base, ?5 = drift, ?6 = leaked, ?7 = forgotten, ?8 = microseconds.
INSERT INTO reconciliation (product_id, run, generation, base, drift, leaked, forgotten, at_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: reconciliation_undone
-- ?1 = product id, ?2 = run, ?3 = the generation that Redis has.
UPDATE reconciliation SET applied_us = NULL WHERE product_id = ? AND run = ? AND generation > ?

-- name: reconciliation_applied
-- ?1 = microseconds, ?2 = product id, ?3 = run, ?4 = generation.
UPDATE reconciliation SET applied_us = ? WHERE product_id = ? AND run = ? AND generation = ? AND applied_us IS NULL

-- name: several_writers
-- Whether the server is one of several that write, for all that it says. MySQL only.
SHOW VARIABLES WHERE Variable_name = 'wsrep_on' AND Value = 'ON' OR Variable_name = 'group_replication_single_primary_mode' AND Value = 'OFF'

-- name: server_state
-- What says whether the server may lack commits of others. MySQL only.
SHOW VARIABLES WHERE Variable_name IN ('wsrep_on', 'wsrep_sync_wait', 'read_only', 'innodb_read_only',
  'group_replication_group_name')

-- name: received_keys
-- The ends of the tickets of a run that were sold under some keys. ?1 = product id, ?2 = run, ?... = keys.
SELECT id, product_id, run, quantity, outcome, order_id, reason, idempotency_key, deliveries FROM received
WHERE product_id = ? AND run = ? AND idempotency_key IN
(?)

-- name: units_free
-- How many units of a product are free, by a plain read. ?1 = product, ?2 = run.
SELECT COUNT(*) FROM unit WHERE product_id = ? AND run = ? AND reservation_id IS NULL AND written_off = 0

-- name: units_insert
-- Makes units; a row of values per unit. ?1 = product, ?2 = run, ?3 = number.
INSERT INTO unit (product_id, run, unit_id) VALUES (?, ?, ?)

-- name: units_delete
-- Deletes free units that the transaction has locked. ?1 = product, ?2 = run, ?... = units.
DELETE FROM unit WHERE product_id = ? AND run = ? AND unit_id IN (?)

-- name: units_last
-- The highest number of a unit. ?1 = product, ?2 = run.
SELECT COALESCE(MAX(unit_id), 0) FROM unit WHERE product_id = ? AND run = ?

-- name: units_old
-- Deletes the units of earlier runs of a product. ?1 = product, ?2 = run.
DELETE FROM unit WHERE product_id = ? AND run <> ?

-- name: units_own
-- Gives locked units to a reservation. ?1 = reservation, ?2 = product, ?3 = run, ?... = units.
UPDATE unit SET reservation_id = ? WHERE product_id = ? AND run = ? AND unit_id IN (?)

-- name: return_insert
-- Notes what comes back of an order that the transaction has locked. ?1 = order, ?2 = product, ?3 = digest of the key, '' = all that is
-- left, ?4 = quantity, ?5 = restocked, ?6 = now.
INSERT INTO order_return (order_id, product_id, request, quantity, restocked, at_us) VALUES (?, ?, ?, ?, ?, ?)

-- name: returns_of_order
-- What has come back of an order. ?1 = order, ?2 = product.
SELECT order_id, request, quantity, restocked FROM order_return WHERE order_id = ? AND product_id = ?

-- name: returns_of
-- What has come back of some orders. ?1 = product, ?... = orders.
SELECT order_id, request, quantity, restocked FROM order_return WHERE product_id = ? AND order_id IN (?) ORDER BY at_us, request

-- name: delete_returns
-- ?1 = product id.
DELETE FROM order_return WHERE product_id = ?

-- name: hold_part
-- Gives units of a line back, while the reservation is held until the deadline that was read. ?1 = quantity, ?2 = reservation, ?3 = product,
-- ?4 = quantity, ?5 = deadline. No row = somebody else was first.
UPDATE reservation_item SET quantity = quantity - ? WHERE reservation_id = ? AND product_id = ? AND quantity >= ?
  AND EXISTS (SELECT 1 FROM reservation r WHERE r.id = reservation_item.reservation_id AND r.state = 'held' AND r.expires_us = ?)

-- name: holds_of
-- The units of a product that are held in a snapshot, those of them that are overdue, and whether there were reservations, or tickets whose
-- units went back. It reads the reservations that are held, not those that have ended. ?1 = now, ?2, ?3, ?4 = product.
SELECT COALESCE(SUM(i.quantity), 0), COALESCE(SUM(CASE WHEN r.expires_us <= ? THEN i.quantity ELSE 0 END), 0),
  EXISTS (SELECT 1 FROM product_stock q JOIN reservation_item j ON j.product_id = q.id AND j.run = q.run WHERE q.id = ?)
    OR EXISTS (SELECT 1 FROM received e WHERE e.product_id = ? AND e.outcome <> 'sold')
FROM product_stock p JOIN reservation_item i ON i.product_id = p.id AND i.run = p.run
JOIN reservation r ON r.id = i.reservation_id AND r.state = 'held' WHERE p.id = ?

-- name: hold_rules
-- What a judge asks of a product with reservations. ?1 = product.
SELECT run, COALESCE(per_buyer, 0), extends FROM product_stock WHERE id = ?

-- name: buyers_of
-- The buyers' units of a product. ?1 = product, ?2 = run.
SELECT buyer, units FROM buyer_units WHERE product_id = ? AND run = ? AND units <> 0

-- name: holds_page
-- The reservations of a run after an id. ?1 = product, ?2 = run, ?3 = id, ?4 = how many.
SELECT r.id, r.idempotency_key, r.mode, r.replica, COALESCE(r.buyer, ''), r.state, r.expires_us, COALESCE(r.extended_us, 0), r.late,
  r.created_us, r.changed_us, i.quantity
FROM reservation_item i JOIN reservation r ON r.id = i.reservation_id
WHERE i.product_id = ? AND i.run = ? AND i.reservation_id > ? ORDER BY i.reservation_id LIMIT ?

-- name: hold_events_of
-- The changes of some reservations that are about a product, in their order. ?... = reservations, then product.
SELECT reservation_id, was, now, deadline_us, by_replica, at_us, COALESCE(committed_us, 0), COALESCE(request, ''), quantity FROM reservation_event
WHERE reservation_id IN (?) AND (product_id IS NULL OR product_id = ?) ORDER BY seq

-- name: hold_orders_of
-- The orders of some reservations. ?1 = product, ?... = reservations.
SELECT reservation_id, id, idempotency_key, COALESCE(buyer, ''), quantity FROM orders
WHERE product_id = ? AND reservation_id IN (?) ORDER BY created_us, id

-- name: hold_payments_of
-- The payments of some reservations. ?... = reservations.
SELECT reservation_id, id, COALESCE(order_id, ''), outcome, at_us FROM payment WHERE reservation_id IN (?) ORDER BY at_us, id

-- name: hold_move
-- Changes the state, if state and deadline are still those that were read. ?1 = new state, ?2 = now, ?3 = id, ?4 = old state, ?5 = old
-- deadline. No row = somebody else was first.
UPDATE reservation SET state = ?, changed_us = ? WHERE id = ? AND state = ? AND expires_us = ?

-- name: holds_move
-- Changes the state of some reservations whose deadline has passed. ?1 = new state, ?2 = now, ?... = reservations, then now. Fewer rows than
-- reservations = somebody else was first.
UPDATE reservation SET state = ?, changed_us = ? WHERE id IN (?) AND state = 'held' AND expires_us <= ?

-- name: holds_events
-- Records changes of states. A row of values per reservation. ?1 = reservation, ?2 = state before, ?3 = state now, ?4 = deadline, ?5 =
-- replica, ?6 = microseconds.
INSERT INTO reservation_event (reservation_id, was, now, deadline_us, by_replica, at_us)
VALUES (?, ?, ?, ?, ?, ?)

-- name: hold_extend
-- ?1 = new deadline, ?2 = now, ?3 = now, ?4 = id, ?5 = old deadline, ?6 = when it was extended last, 0 = not yet.
UPDATE reservation SET expires_us = ?, extended_us = ?, changed_us = ? WHERE id = ? AND state = 'held' AND expires_us = ?
  AND COALESCE(extended_us, 0) = ?

-- name: hold_changes
-- The extensions of a reservation, and the parts that were given back (by quantity), each with the digest of its key. ?1 = reservation.
SELECT COALESCE(request, ''), COALESCE(product_id, 0), quantity, deadline_us FROM reservation_event
WHERE reservation_id = ? AND was = 'held' AND (now = 'held' OR quantity > 0)

-- name: hold_order_insert
-- ?1 id, ?2 product, ?3 quantity, ?4 mode, ?5 replica, ?6 payment, ?7 microseconds, ?8 run, ?9 buyer, ?10 reservation.
INSERT INTO orders (id, product_id, quantity, mode, replica, idempotency_key, created_us, run, buyer, reservation_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: order_buyer
-- Writes run and buyer on an order that no reservation was made for. ?1 = run, ?2 = buyer, ?3 = order, ?4 = product.
UPDATE orders SET run = ?, buyer = ? WHERE id = ? AND product_id = ?

-- name: hold_order
-- The order of a reservation that is confirmed. ?1 = reservation.
SELECT id FROM orders WHERE reservation_id = ? LIMIT 1

-- name: hold_certain
-- Stamps the expiries of a sweep that has been committed. ?1 = microseconds, ?... = reservations.
UPDATE reservation_event SET committed_us = ? WHERE now = 'expired' AND committed_us IS NULL AND reservation_id IN (?)

-- name: payment_read
-- ?1 = payment.
SELECT reservation_id, COALESCE(order_id, ''), at_us FROM payment WHERE id = ?

-- name: payment_insert
-- ?1 = payment, ?2 = reservation, ?3 = outcome, ?4 = order, ?5 = microseconds.
INSERT INTO payment (id, reservation_id, outcome, order_id, at_us) VALUES (?, ?, ?, ?, ?)

-- name: payment_order
-- Makes a late payment one that became an order. ?1 = order, ?2 = payment.
UPDATE payment SET outcome = 'order', order_id = ? WHERE id = ?

-- name: buyer_take
-- Takes units from a buyer's limit. ?1 = quantity, ?2 = product, ?3 = run, ?4 = buyer, ?5 = quantity, ?6 = limit. No row = too many.
UPDATE buyer_units SET units = units + ? WHERE product_id = ? AND run = ? AND buyer = ? AND units + ? <= ?

-- name: buyer_give
-- ?1 = quantity, ?2 = product, ?3 = run, ?4 = buyer.
UPDATE buyer_units SET units = units - ? WHERE product_id = ? AND run = ? AND buyer = ?

-- name: buyers_give
-- Gives units back to some buyers, WHEN buyer THEN units each. ?... = buyers and units, then product, run, ?... = buyers.
UPDATE buyer_units SET units = units - CASE buyer WHEN ? THEN ? END WHERE product_id = ? AND run = ? AND buyer IN (?)

-- name: buyer_has
-- The units that count for a buyer's limit. ?1 = product, ?2 = run, ?3 = buyer.
SELECT units FROM buyer_units WHERE product_id = ? AND run = ? AND buyer = ?

-- name: buyer_bought
-- The units that a buyer has by the orders of a product's run, and the limit, by a plain read. ?1 = buyer, ?2 = product.
SELECT COALESCE(SUM(o.quantity
    - (SELECT COALESCE(SUM(b.quantity), 0) FROM order_return b WHERE b.order_id = o.id AND b.product_id = o.product_id)), 0),
  COALESCE(p.per_buyer, 0)
FROM product_stock p LEFT JOIN orders o ON o.product_id = p.id AND o.run = p.run AND o.buyer = ? WHERE p.id = ? GROUP BY p.id, p.per_buyer

-- name: insert_order
-- ?1 id, ?2 product, ?3 quantity, ?4 remaining, ?5 mode, ?6 replica, ?7 key, ?8 fence, ?9 microseconds.
INSERT INTO orders (id, product_id, quantity, remaining, mode, replica, idempotency_key, fence, created_us)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: keep_answer
-- Stores the answer in the transaction that it answers. ?1 = status, ?2 = body, ?3 = mode, ?4 = key.
UPDATE idempotent_log SET status = ?, body = ?, mode = ? WHERE idempotency_key = ?

-- name: keys_of
-- The keys that are stored under a product. ?1 = product id.
SELECT idempotency_key, status, created_us, mode FROM idempotent_log WHERE product_id = ?

-- name: keys_page
-- A page of the keys that are stored under a product. ?1 = product id, ?2 = the last key of the page before, ?3 = how many.
SELECT idempotency_key, status, created_us, mode FROM idempotent_log
WHERE product_id = ? AND idempotency_key > ? ORDER BY idempotency_key LIMIT ?

-- name: old_keys
-- The oldest keys with an answer. ?1 = its status, ?2 = microseconds before which a key is old, ?3 = how many at most.
SELECT /* lastitem-purge */ idempotency_key FROM idempotent_log WHERE status = ? AND created_us < ? ORDER BY created_us LIMIT ?

-- name: orders_of
-- All orders of a product, in the order of the index. It leaves out orders of an earlier run, which were confirmed while the stock was
-- being set. Every query that reads a product's orders does. ?1 = product id.
SELECT id, product_id, quantity, remaining, mode, replica, idempotency_key, fence, created_us, COALESCE(reservation_id, '')
FROM orders WHERE product_id = ?
AND COALESCE(run, 0) IN (0, (SELECT p.run FROM product_stock p WHERE p.id = product_id))

-- name: purge_keys
-- Deletes those of the given keys that are old; "+ 0" keeps it from locking through the index on the time. ?... = keys,
-- then the time in microseconds before which a key is old.
DELETE /* lastitem-purge */ FROM idempotent_log WHERE idempotency_key IN (?) AND created_us + 0 < ?

-- name: raise_fence
-- Raises the row's fence to a token: lower tokens are refused from now on, an equal one is not. lease_seq rises with it because MySQL
-- counts the rows that changed, not those that matched: the same token a second time would look refused. ?1 = token, ?2 = product id, ?3
-- = token. No row = refused.
UPDATE product_stock SET fence = ?, lease_seq = lease_seq + 1 WHERE id = ? AND fence <= ?

-- name: raise_fence_strictly
-- Raises the row's fence to a token that the row has not seen yet: tokens up to and including it are refused from now on. ?1 = token, ?2
-- = product id, ?3 = token. No row = refused.
UPDATE product_stock SET fence = ?, lease_seq = lease_seq + 1 WHERE id = ? AND fence < ?

-- name: look
-- The plain read that a refusal rests on. ?1 = product id.
SELECT stock FROM product_stock WHERE id = ? AND segments = 0

-- name: read
-- The plain, unlocked read that trusting modes begin with. ?1 = product id.
SELECT stock, lease_seq, version, CAST(updated_at AS CHAR), segments FROM product_stock WHERE id = ?

-- name: read_answers
-- The first answers under some keys. ?... = keys.
SELECT idempotency_key, fingerprint, status, body, mode FROM idempotent_log WHERE idempotency_key IN
(?)

-- name: read_for_update
-- The read that locks the row until the transaction ends. MariaDB executes the comment with M!, in seconds; MySQL obeys the hint, in
-- milliseconds. Both end the statement when the time is over, and neither changes a setting of the session. ?1 = seconds, ?2 =
-- milliseconds, ?3 = product id.
/*M! SET STATEMENT max_statement_time = ? FOR */
SELECT /*+ MAX_EXECUTION_TIME(?) */ stock, lease_seq, version, CAST(updated_at AS CHAR), segments
FROM product_stock WHERE id = ? FOR UPDATE

-- name: facts_for_update
-- facts of a row that is locked until the transaction ends: see read_for_update. ?1 = seconds, ?2 = milliseconds, ?3 = product id.
/*M! SET STATEMENT max_statement_time = ? FOR */
SELECT /*+ MAX_EXECUTION_TIME(?) */ initial, stock, lease_seq, segments, way, run FROM product_stock WHERE id = ? FOR UPDATE

-- name: read_for_update_nowait
-- The read that locks the row until the transaction ends, or fails at once if another transaction has it. ?1 = product id.
SELECT stock, lease_seq, version, CAST(updated_at AS CHAR), segments FROM product_stock WHERE id = ? FOR UPDATE NOWAIT

-- name: read_key
-- The first answer under a key. ?1 = key.
SELECT fingerprint, status, body, mode FROM idempotent_log WHERE idempotency_key = ?

-- name: read_run
-- The run that a product is in. ?1 = product id.
SELECT run FROM product_stock WHERE id = ?

-- name: set
-- The trusting write: absolute, whatever the count is now. Every write raises lease_seq and version, so that a writer that compares one
-- of them notices every write. A product of which units are held refuses it: it would overwrite a release. ?1 = stock, ?2 = product id.
UPDATE product_stock SET stock = ?, way = 'absolute', lease_seq = lease_seq + 1, version = version + 1
WHERE id = ? AND way <> 'holds'

-- name: set_fenced
-- The absolute write with a fencing token: refused once the row has seen a higher one. ?1 = stock, ?2 = token, ?3 = product id, ?4 =
-- token. No row = refused.
UPDATE product_stock SET stock = ?, fence = ?, way = 'absolute', lease_seq = lease_seq + 1, version = version + 1
WHERE id = ? AND fence <= ? AND way <> 'holds'

-- name: set_version
-- Writes the computed count, unless somebody has written since the version was read. ?1 = stock, ?2 = product id, ?3 = version as read.
-- No row = refused.
UPDATE product_stock SET stock = ?, lease_seq = lease_seq + 1, version = version + 1 WHERE id = ? AND version = ?

-- name: sell_in_one_trip
-- MySQL only: the conditional update, the order if the update took a row, and COMMIT, in one packet, on a connection without autocommit.
-- ?1 = quantity, ?2 = product id, ?3 = quantity; ?4 id, ?5 product, ?6 quantity, ?7 mode, ?8 replica, ?9 key, ?10 fence, ?11 microseconds.
UPDATE product_stock SET stock = LAST_INSERT_ID(stock - ?), lease_seq = lease_seq + 1, version = version + 1
WHERE id = ? AND stock >= ? AND segments = 0;
INSERT INTO orders (id, product_id, quantity, remaining, mode, replica, idempotency_key, fence, created_us)
SELECT ?, ?, ?, LAST_INSERT_ID(), ?, ?, ?, ?, ? FROM DUAL WHERE ROW_COUNT() = 1;
COMMIT

-- name: sold
-- The stock left after each of the given orders of a product. ?1 = product id, ?... = ids.
SELECT id, remaining FROM orders WHERE product_id = ? AND id IN
(?)

-- name: surplus_keys
-- When the newest of the surplus keys with an answer was made. ?1 = its status, ?2 = how many newer keys are no surplus.
SELECT /* lastitem-purge */ created_us FROM idempotent_log WHERE status = ? ORDER BY created_us DESC LIMIT 1 OFFSET ?

-- name: take_at
-- Takes units only from the state that was read: nobody may have written since. ?1 = quantity, ?2 = product id,
-- ?3 = lease_seq as read, ?4 = quantity. No row = refused.
UPDATE product_stock SET stock = stock - ?, lease_seq = lease_seq + 1, version = version + 1
WHERE id = ? AND lease_seq = ? AND stock >= ?

-- name: holds_ended
-- Reservations in a state that ended long ago, whatever their deadline is, after the last one that was looked at: those that no payment
-- came for and that no late payment can revive, and all that are older still; never one that has an order. ?1 = state, ?2 = microseconds,
-- ?3 = end of the last, ?4 = the same, ?5 = id of the last, ?6 = microseconds further back, ?7 = how many.
SELECT r.id, r.changed_us FROM reservation r
WHERE r.state = ? AND r.changed_us < ? AND (r.changed_us > ? OR r.changed_us = ? AND r.id > ?)
  AND (r.changed_us < ? OR r.state <> 'confirmed' AND r.late = 'refund'
    AND NOT EXISTS (SELECT 1 FROM payment p WHERE p.reservation_id = r.id))
  AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.reservation_id = r.id) ORDER BY r.changed_us, r.id LIMIT ?

-- name: purge_items
-- ?... = reservations.
DELETE FROM reservation_item WHERE reservation_id IN (?)

-- name: purge_events
-- ?... = reservations.
DELETE FROM reservation_event WHERE reservation_id IN (?)

-- name: purge_holds
-- ?... = reservations.
DELETE FROM reservation WHERE id IN (?)

-- name: hold_oldest
-- The deadline of the oldest reservation that is overdue, 0 = none. ?1 = now.
SELECT COALESCE(MIN(expires_us), 0) FROM reservation WHERE state = 'held' AND expires_us <= ?
