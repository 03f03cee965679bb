package wire

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is a kernel timer. The timers of the Go runtime wake an idle program up to a millisecond late, which would be
// twice the delay of a round trip of 1 ms.
type alarm struct{ file *os.File }

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("wire: a timer: %w", err)
	}
	return &alarm{os.NewFile(uintptr(fd), "timer")}, nil
}

// wait returns true after d, or false when the alarm is closed. Only one goroutine at a time may call it.
func (a *alarm) wait(d time.Duration) bool {
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, d.Nanoseconds()))} // 0 would disarm the timer
	conn, err := a.file.SyscallConn()
	if err != nil {
		return false
	}
	set := conn.Control(func(fd uintptr) { err = unix.TimerfdSettime(int(fd), 0, &at, nil) })
	if set != nil || err != nil {
		return false
	}
	var times [8]byte
	_, err = a.file.Read(times[:])
	return err == nil
}

func (a *alarm) close() { _ = a.file.Close() }
