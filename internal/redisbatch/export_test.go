package redisbatch

import "time"

// Size is the most calls of a batch.
const Size = size

// Exec sends one batch.
func (b *Batcher) Exec(batch ...*Call) { b.exec(batch, b.limit) }

// Tune changes what bounds the batches under way, for a benchmark: how many of them at first, how many in all, and whether the goroutine that
// gathers lets others run first.
func (b *Batcher) Tune(few, most int, yield bool) *Batcher {
	b.tuning = tuning{few: few, most: most, late: time.Millisecond, yield: yield}
	return b
}
