-- Locks the row for the transaction. ?1 = key. The error of a row that another transaction has comes at once, or after
-- innodb_lock_wait_timeout where NOWAIT is left away.
SELECT lock_key FROM record_lock WHERE lock_key = ? FOR UPDATE NOWAIT
