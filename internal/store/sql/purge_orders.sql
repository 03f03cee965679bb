-- ?... = ids.
DELETE /* lastitem-purge */ FROM orders WHERE id IN (?)
