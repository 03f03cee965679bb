-- The read that locks the row until the transaction ends. MariaDB executes the comment with M!, in seconds; MySQL obeys the hint, in
-- milliseconds. Both end the statement when the time is over, and neither changes a setting of the session. ?1 = seconds, ?2 =
-- milliseconds, ?3 = product id.
/*M! SET STATEMENT max_statement_time = ? FOR */
SELECT /*+ MAX_EXECUTION_TIME(?) */ stock, lease_seq, version, CAST(updated_at AS CHAR), segments
FROM product_stock WHERE id = ? FOR UPDATE
