package redisbatch

// Size is the most calls of a batch, and Slots the most batches in flight.
const Size, Slots = size, slots

// Exec sends one batch.
func (b *Batcher) Exec(batch ...*Call) { b.exec(batch, b.limit) }

// Hasty makes a batcher that does not let other callers run first.
func (b *Batcher) Hasty() *Batcher {
	b.hasty = true
	return b
}

// Whole makes a batcher whose batches take all calls that wait.
func (b *Batcher) Whole() *Batcher {
	b.whole = true
	return b
}
