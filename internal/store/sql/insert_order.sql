-- ?1 id, ?2 product, ?3 quantity, ?4 remaining, ?5 mode, ?6 replica, ?7 key, ?8 fence, ?9 microseconds.
INSERT INTO orders (id, product_id, quantity, remaining, mode, replica, idempotency_key, fence, created_us)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
