-- mode is whose answer it is: the same key in another mode is another payload. NULL = written by a replica that does not say.
ALTER TABLE idempotent_log ADD COLUMN mode TEXT NULL;
