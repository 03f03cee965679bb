-- What the ledger shows of a product. ?1 = product id.
SELECT s.initial, s.stock, s.lease_seq, s.segments,
  COALESCE(p.order_rows, 0), COALESCE(p.units, 0), COALESCE(p.key_rows, 0)
FROM product_stock s LEFT JOIN purged p ON p.product_id = s.id AND p.run = s.run
WHERE s.id = ?
