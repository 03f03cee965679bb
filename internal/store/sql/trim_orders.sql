-- Orders of a product that are not carts with other products. ?1 = product id, ?2 = how many at most.
SELECT id FROM orders o WHERE product_id = ?
  AND NOT EXISTS (SELECT 1 FROM orders f WHERE f.id = o.id AND f.product_id <> o.product_id) LIMIT ?
