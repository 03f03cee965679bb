-- Locks the row for the transaction. ?1 = key. If another transaction has the row, the statement fails at once, or, without NOWAIT, after
-- innodb_lock_wait_timeout.
SELECT lock_key FROM record_lock WHERE lock_key = ? FOR UPDATE NOWAIT
