-- Takes units only from the state that was read: nobody may have written since. ?1 = quantity, ?2 = product id,
-- ?3 = lease_seq as read, ?4 = quantity. No row = refused.
UPDATE product_stock SET stock = stock - ?, lease_seq = lease_seq + 1, version = version + 1
WHERE id = ? AND lease_seq = ? AND stock >= ?
