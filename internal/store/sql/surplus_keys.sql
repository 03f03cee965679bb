-- When the newest of the surplus keys with an answer was made. ?1 = its status, ?2 = how many newer keys are no surplus.
SELECT /* lastitem-purge */ created_us FROM idempotent_log WHERE status = ? ORDER BY created_us DESC LIMIT 1 OFFSET ?
