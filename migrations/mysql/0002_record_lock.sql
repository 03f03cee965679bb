-- record_lock: the locks that are rows. expires_us is microseconds since the epoch by the database's own clock, 0 = free, NULL =
-- never: the row without expiry. fence counts the holds of the key, so the row of a lock that has a fence stays.
CREATE TABLE IF NOT EXISTS record_lock (
  lock_key   VARBINARY(255)  NOT NULL PRIMARY KEY,
  owner      VARBINARY(64)   NOT NULL,
  expires_us BIGINT          NULL,
  fence      BIGINT UNSIGNED NOT NULL DEFAULT 0
) ENGINE = InnoDB;
