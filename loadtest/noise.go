package loadtest

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lastitem/loadtest/client"
	"lastitem/say/text"
)

// A run's numbers should not be trusted if other programs used more than noisyCPU cores just before it, the hypervisor
// took more than noisySteal cores, or requests were sent later than noisyLag and than a tenth of the measured latency.
const (
	noisyCPU   = 0.15
	noisySteal = 0.02
	noisyLag   = 2 * time.Millisecond
	// discountedDrops is the share of dropped arrivals above which an open-loop run does not count.
	discountedDrops = 0.01
	// quietWindow is how long the machine is observed before the load. The kernel counts in hundredths of a second.
	quietWindow = 200 * time.Millisecond
)

// noise returns sentences with the reasons not to trust the numbers of a run; nil if there are none. quiet is the CPU
// time just before the load, when the machine should have been idle; during is the CPU time during the load.
func noise(res *Result, quiet, during cpuTime, lang string) []string {
	var why []string
	note := func(reason text.Text, args ...any) { why = append(why, reason.With(args...).In(lang)) }
	if cores := quiet.cores(quiet.busy); cores > noisyCPU {
		note(text.Of("other programs used %.2f cores just before the load"), cores)
	}
	if cores := during.cores(during.steal); cores > noisySteal {
		note(text.Of("other virtual machines took %.2f cores away during it (steal)"), cores)
	}
	if res.Dropped > 0 && discounted(res, lang) == "" {
		note(text.Of("%d [arrival was|arrivals were] dropped: %d [request was|requests were] in flight"), res.Dropped,
			res.Plan.MaxInFlight)
	}
	if limit := max(noisyLag, res.Latency[client.Accepted].P99/10); res.Lag.P99 > limit {
		note(text.Of("the load generator sent late: 1%% of the requests more than %v after their time"),
			res.Lag.P99.Round(10*time.Microsecond))
	}
	return why
}

// discounted returns why a run does not count as a measurement; "" = it counts.
func discounted(res *Result, lang string) string {
	arrivals := res.Sent - res.Retried + res.Dropped
	if res.Holds != nil {
		arrivals = res.Holds.Buyers + res.Dropped
	}
	if float64(res.Dropped) <= discountedDrops*float64(arrivals) {
		return ""
	}
	return text.Of("%d of %d arrivals (%.1f%%) were dropped, more than %.0f%%: %d [request was|requests were] in "+
		"flight, so the load was not the planned one, and the latencies are those of the sent requests; lower --rate, or "+
		"raise --max-in-flight").With(res.Dropped, arrivals, 100*float64(res.Dropped)/float64(arrivals), 100*discountedDrops,
		res.Plan.MaxInFlight).In(lang)
}

// cpuTime is the CPU time of the machine since its start, or between two readings. The zero value, if the system does
// not tell, is never noisy.
type cpuTime struct {
	busy, steal float64 // seconds of one core
	at          time.Time
	over        time.Duration
}

// ownCPU is the CPU time that this process has used since its start.
func ownCPU() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// cores converts core seconds to cores.
func (t cpuTime) cores(seconds float64) float64 {
	if t.over <= 0 {
		return 0
	}
	return seconds / t.over.Seconds()
}

// since returns the CPU time since an earlier reading.
func (t cpuTime) since(earlier cpuTime) cpuTime {
	if t.at.IsZero() || earlier.at.IsZero() {
		return cpuTime{}
	}
	return cpuTime{busy: t.busy - earlier.busy, steal: t.steal - earlier.steal, at: t.at, over: t.at.Sub(earlier.at)}
}

// cpuOver measures the CPU time over d.
func cpuOver(d time.Duration) cpuTime {
	before := readCPU()
	if before.at.IsZero() {
		return cpuTime{}
	}
	time.Sleep(d)
	return readCPU().since(before)
}

// readCPU reads the kernel's counters; the zero value if there are none.
func readCPU() cpuTime {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpuTime{}
	}
	return parseCPU(string(stat), time.Now())
}

// parseCPU reads the first line of /proc/stat (proc(5)): user, nice, system, idle, iowait, irq, softirq, steal, in
// ticks of a hundredth of a second. Stolen time does not count as busy.
func parseCPU(stat string, at time.Time) cpuTime {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return cpuTime{}
	}
	var ticks [8]float64
	for i := range ticks {
		n, err := strconv.ParseFloat(fields[i+1], 64)
		if err != nil {
			return cpuTime{}
		}
		ticks[i] = n / 100
	}
	return cpuTime{busy: ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6], steal: ticks[7], at: at}
}
