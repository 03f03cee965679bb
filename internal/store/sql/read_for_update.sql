-- The read that locks the row until the transaction ends. MariaDB executes what stands behind M!, in seconds, MySQL heeds the
-- hint, in milliseconds: both end the statement when the time is over, and neither leaves anything set behind it. ?1 = seconds,
-- ?2 = milliseconds, ?3 = product id.
/*M! SET STATEMENT max_statement_time = ? FOR */
SELECT /*+ MAX_EXECUTION_TIME(?) */ stock, lease_seq, version, CAST(updated_at AS CHAR), segments
FROM product_stock WHERE id = ? FOR UPDATE
