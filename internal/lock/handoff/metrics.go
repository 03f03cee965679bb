package handoff

import "time"

// An Adder is a counter or a gauge. Those of Prometheus are Adders.
type Adder interface{ Add(float64) }

// An Observer is a histogram of seconds.
type Observer interface{ Observe(float64) }

// Metrics count and measure what an engine does; each field may be nil. They are per engine and not per key, because keys are many. Several
// goroutines may call them at once, also with the engine's mutex held, so they must not call the engine.
type Metrics struct {
	// Waiting and Held are gauges: callers waiting in Acquire, and leases held.
	Waiting, Held Adder
	// Wait is the time from Acquire to the grant, Hold the time from there to Release. Handoff is the time from the release of a contended
	// lock (estimated, if another process released it) to the return of the next Acquire.
	Wait, Hold, Handoff Observer
	// Acquired counts leases; Contended those that had to wait; TimedOut waits that ended with ErrBusy; Lost leases that ended
	// with ErrLost; RenewFailed renewals without an answer; Skipped waiters that a grant skipped because their process was gone, or silent.
	Acquired, Contended, TimedOut, Lost, RenewFailed, Skipped Adder
	// GrantLate counts grants that came so late that they had to be asked for again; Missed messages that were lost, and whose grant a poll
	// found; Resubscribed subscriptions that were lost and are back; CleanupFailed cancels without an answer, which are repeated;
	// CleanupDropped cancels that were given up; RightMissing requests that Redis refused to the user of the client.
	GrantLate, Missed, Resubscribed, CleanupFailed, CleanupDropped, RightMissing Adder
}

// of returns the counter of a kind of trouble.
func (m *meter) of(t trouble) Adder {
	switch t {
	case renewalFailed:
		return m.RenewFailed
	case leaseEnded:
		return m.Lost
	case grantLate:
		return m.GrantLate
	case messageMissed:
		return m.Missed
	case resubscribed:
		return m.Resubscribed
	case cleanupFailed:
		return m.CleanupFailed
	case rightMissing:
		return m.RightMissing
	default:
		return m.CleanupDropped
	}
}

// meter is Metrics whose fields may be nil.
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
