-- Reads the rows of the given orders. ?... = ids.
SELECT /* lastitem-purge */ product_id, quantity FROM orders WHERE id IN (?)
