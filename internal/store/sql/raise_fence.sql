-- Raises the row's fence to a token: lower tokens are refused from now on, an equal one is not. lease_seq rises with it because MySQL
-- counts the rows that changed, not those that matched: the same token a second time would look refused. ?1 = token, ?2 = product id, ?3
-- = token. No row = refused.
UPDATE product_stock SET fence = ?, lease_seq = lease_seq + 1 WHERE id = ? AND fence <= ?
