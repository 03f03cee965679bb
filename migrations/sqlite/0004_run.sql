-- run names the time from one setting of the stock to the next. A request that waits in a log carries it, and is void in any other:
-- what it would take was never its to take.
ALTER TABLE product_stock ADD COLUMN run INTEGER NOT NULL DEFAULT 1;
