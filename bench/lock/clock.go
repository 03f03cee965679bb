package main

import "time"

// clock gives times that the processes of a window can compare: the wall clock at the start of the process plus the
// monotonic time since. A step of the wall clock during a window has no effect.
type clock struct{ began time.Time }

func newClock() clock { return clock{time.Now()} }

// now returns nanoseconds since 1970.
func (c clock) now() int64 { return c.began.UnixNano() + int64(time.Since(c.began)) }

// until sleeps until t; it returns at once if t is past.
func (c clock) until(t int64) { time.Sleep(time.Duration(t - c.now())) }
