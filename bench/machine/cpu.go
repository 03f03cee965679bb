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

// Usage is CPU time since the machine began, in ticks: of everybody, and of some processes.
type Usage struct{ total, busy, ours float64 }

// ReadUsage asks the kernel; ok is false where it has no /proc. Interrupts are left out of busy: the traffic of the
// window itself makes most of them, and no process is charged with them. Time stolen by other machines is in.
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

// Others is the share of all CPU time between two readings that went to other programs.
func Others(before, after Usage) figure.Number {
	total := after.total - before.total
	if total <= 0 {
		return figure.None
	}
	return figure.Number(max(0, (after.busy-before.busy-after.ours+before.ours)/total))
}

// Spent is the CPU time that the processes of both readings used in between.
func Spent(before, after Usage) time.Duration {
	return time.Duration((after.ours - before.ours) * float64(tick))
}
