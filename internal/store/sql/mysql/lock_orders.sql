-- Locks and reads, in the order of the primary key, the rows of the given orders. ?... = ids.
SELECT /* lastitem-purge */ product_id, quantity FROM orders WHERE id IN (?) FOR UPDATE
