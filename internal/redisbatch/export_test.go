package redisbatch

import "time"

// Size is the most calls of a batch, and Slots the most batches in flight.
const Size, Slots = size, slots

// Exec sends one batch.
func (b *Batcher) Exec(batch ...*Call) { b.exec(batch, b.limit) }

// Hasty makes a batcher that does not let other callers run first.
func (b *Batcher) Hasty() *Batcher {
	b.hasty = true
	return b
}

// Room says whether one more batch may be in flight beside some that began so long ago, the oldest first.
func Room(ages ...time.Duration) bool {
	l := newLane(nil)
	for _, age := range ages {
		l.flights = append(l.flights, &flight{began: time.Now().Add(-age)})
	}
	defer func() {
		if l.timer != nil {
			l.timer.Stop()
		}
	}()
	return l.room()
}

// Share returns the size of the next batch if so many calls are in flight and so many wait.
func Share(sent, waiting int) int {
	l := newLane(&Batcher{})
	l.sent, l.waiting = sent, make([]*Call, waiting)
	return l.share()
}

// Whole makes a batcher whose batches take all calls that wait.
func (b *Batcher) Whole() *Batcher {
	b.whole = true
	return b
}
