package store

// The rows of a product, of which there may be millions, are read in pages, one request each ([ledger.Position]), or as
// all of one snapshot in batches ([ledger.Snapshot]). Neither holds more than one page or batch in memory.

// batchRows is how many rows one read fetches when all rows are read: some 250 kB, and well below a millisecond of
// Redis's time.
const batchRows = 1000
