-- Raises the row's fence to a token that the row has not seen yet: tokens up to and including it are refused from now on. ?1 = token, ?2
-- = product id, ?3 = token. No row = refused.
UPDATE product_stock SET fence = ?, lease_seq = lease_seq + 1 WHERE id = ? AND fence < ?
