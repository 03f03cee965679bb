package redisbatch

// Size is the most calls of a batch.
const Size = size

// Exec sends one batch.
func (b *Batcher) Exec(batch ...*Call) { b.exec(batch, b.limit) }

// Hasty is the batcher without the moment that it leaves to other callers.
func (b *Batcher) Hasty() *Batcher {
	b.hasty = true
	return b
}
