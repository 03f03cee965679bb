//go:build !linux

package wire

import "time"

// alarm uses the timers of the Go runtime, which may be a millisecond late.
type alarm struct{ closed chan struct{} }

func newAlarm() (*alarm, error) { return &alarm{make(chan struct{})}, nil }

// wait returns true after d, or false when the alarm is closed. Only one goroutine at a time may call it.
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
