-- The oldest orders. ?1 = microseconds before which an order is old, ?2 = how many at most.
SELECT /* lastitem-purge */ id FROM orders WHERE created_us < ? ORDER BY created_us LIMIT ?
