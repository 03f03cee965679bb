-- run counts how often the stock was set. A request that waits in a log carries it, and is void after the next time: what it would
-- take was never its to take.
ALTER TABLE product_stock ADD COLUMN run INTEGER NOT NULL DEFAULT 1;
