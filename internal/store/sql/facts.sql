-- What the ledger shows of a product. ?1 = product id.
SELECT initial, stock, lease_seq, segments FROM product_stock WHERE id = ?
