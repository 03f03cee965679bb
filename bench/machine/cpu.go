package machine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"lastitem/bench/figure"
)

// tick is the unit in which the kernel counts CPU time.
const tick = 10 * time.Millisecond

// Usage is CPU time since the start of the machine, in ticks: of all processes, and of given ones.
type Usage struct{ total, busy, ours float64 }

// ReadUsage asks the kernel; ok is false without /proc. busy leaves out interrupts: the window's own traffic causes
// most of them, and they are charged to no process. It includes time stolen by other virtual machines.
func ReadUsage(pids ...int) (u Usage, ok bool) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, false
	}
	first, _, _ := strings.Cut(string(stat), "\n")
	const user, nice, system, steal, guest = 1, 2, 3, 8, 9 // fields of the line "cpu"; guest is in user already
	for i, field := range strings.Fields(first) {
		ticks, _ := strconv.ParseFloat(field, 64)
		if i < guest {
			u.total += ticks
		}
		if i == user || i == nice || i == system || i == steal {
			u.busy += ticks
		}
	}
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, after, found := strings.Cut(string(stat), ") ") // after the name, which may hold blanks
		fields := strings.Fields(after)
		if err != nil || !found || len(fields) < 13 {
			return u, false
		}
		for _, field := range fields[11:13] { // utime, stime
			ticks, _ := strconv.ParseFloat(field, 64)
			u.ours += ticks
		}
	}
	return u, true
}

// Others returns the share of all CPU time between two readings that other programs used.
func Others(before, after Usage) figure.Number {
	total := after.total - before.total
	if total <= 0 {
		return figure.None
	}
	return figure.Number(max(0, (after.busy-before.busy-after.ours+before.ours)/total))
}

// Spent returns the CPU time that the given processes used between two readings.
func Spent(before, after Usage) time.Duration {
	return time.Duration((after.ours - before.ours) * float64(tick))
}
