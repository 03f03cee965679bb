-- record_lock: the locks that are rows. expires_us is microseconds since the epoch by the database's own clock, 0 = free, NULL =
-- never: the row without expiry. fence counts the holds of the key, so the row of a lock that has a fence stays.
CREATE TABLE IF NOT EXISTS record_lock (
  lock_key   BLOB    NOT NULL PRIMARY KEY,
  owner      BLOB    NOT NULL,
  expires_us INTEGER NULL,
  fence      INTEGER NOT NULL DEFAULT 0
);
