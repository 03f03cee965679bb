-- The purge finds the oldest keys with this index.
CREATE INDEX IF NOT EXISTS idempotent_log_created ON idempotent_log (created_us);
