package main

import "time"

// clock gives times that the processes of a window can compare: the wall clock's when the process began, carried on by the
// monotonic one. A step of the wall clock during a window does not show.
type clock struct{ began time.Time }

func newClock() clock { return clock{time.Now()} }

// now is in nanoseconds since 1970.
func (c clock) now() int64 { return c.began.UnixNano() + int64(time.Since(c.began)) }

// until returns at once for what is past.
func (c clock) until(t int64) { time.Sleep(time.Duration(t - c.now())) }
