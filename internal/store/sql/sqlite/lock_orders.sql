-- Reads the rows of some orders. ?... = ids.
SELECT /* lastitem-purge */ product_id, quantity FROM orders WHERE id IN (?)
