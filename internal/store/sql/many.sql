-- How many rows a product has in orders and in idempotent_log, each counted up to a limit. ?1 = product id, ?2 = limit, ?3 = product id, ?4 =
-- limit.
SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM orders WHERE product_id = ? LIMIT ?) o)
  + (SELECT COUNT(*) FROM (SELECT 1 FROM idempotent_log WHERE product_id = ? LIMIT ?) k)
