-- Locks, in the order of the primary key, and reads the rows of some orders. ?... = ids.
SELECT /* lastitem-purge */ product_id, quantity FROM orders WHERE id IN (?) FOR UPDATE
