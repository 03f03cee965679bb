-- mode is the mode that answered: the same key in another mode is another payload. NULL = written by a replica of an earlier version.
ALTER TABLE idempotent_log ADD COLUMN mode TEXT NULL;
