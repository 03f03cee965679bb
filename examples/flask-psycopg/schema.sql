CREATE TABLE products (id BIGINT PRIMARY KEY, stock INT NOT NULL);
CREATE TABLE orders (id UUID PRIMARY KEY, product_id BIGINT NOT NULL, quantity INT NOT NULL, idempotency_key TEXT UNIQUE);
