//go:build !linux

package wire

import "time"

// alarm waits by the runtime's timers, which may be a millisecond late.
type alarm struct{ closed chan struct{} }

func newAlarm() (*alarm, error) { return &alarm{make(chan struct{})}, nil }

// wait returns after d, or with false when the alarm is closed. One goroutine may call it at a time.
func (a *alarm) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-a.closed:
		return false
	}
}

func (a *alarm) close() { close(a.closed) }
