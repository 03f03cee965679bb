package handoff

import "time"

// An Adder is a counter or a gauge. Those of Prometheus are Adders.
type Adder interface{ Add(float64) }

// An Observer is a histogram of seconds.
type Observer interface{ Observe(float64) }

// Metrics are told what an engine does; each may be nil. They are per engine and not per key: keys are many.
// They are told under the engine's mutex, and must not call it.
type Metrics struct {
	// Waiting and Held are gauges: callers waiting in Acquire, and leases held.
	Waiting, Held Adder
	// Wait is the time in Acquire until it had the lock, Hold the time until Release, Handoff that from the grant of a lock
	// that was waited for (estimated, where another process gave it) to its new holder being told.
	Wait, Hold, Handoff Observer
	// Acquired counts leases; Contended those that had to wait; TimedOut waits that ended with ErrBusy; Lost leases that ended
	// with ErrLost; RenewFailed renewals without an answer; Skipped waiters passed over because their process was gone, or silent.
	Acquired, Contended, TimedOut, Lost, RenewFailed, Skipped Adder
}

// meter is EngineMetrics that may be left out.
type meter struct{ Metrics }

func add(a Adder, n float64) {
	if a != nil {
		a.Add(n)
	}
}

func observe(o Observer, d time.Duration) {
	if o != nil {
		o.Observe(d.Seconds())
	}
}

func (m *meter) skipped(n int64) {
	if n > 0 {
		add(m.Skipped, float64(n))
	}
}
