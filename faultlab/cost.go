package faultlab

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Cost is what an exploration took from the machine.
type Cost struct {
	// LabCPU is the processor time of the lab's own process, proxies and judge included; RestCPU that of the replicas and servers.
	LabCPU  time.Duration `json:"lab_cpu_ns"`
	RestCPU time.Duration `json:"rest_cpu_ns"`
	// Peak is the most memory that all of these had at one time, in bytes, as far as looks every second saw it: anonymous and shared
	// pages, not those of files. 0 = not known, on systems without /proc.
	Peak int64 `json:"peak_bytes"`
}

// meter measures a cost.
type meter struct {
	self, children time.Duration // before
	stop           context.CancelFunc
	done           sync.WaitGroup
	peak           int64
}

// memoryTick is how often the meter looks at the memory.
const memoryTick = time.Second

func startMeter(ctx context.Context) *meter {
	m := &meter{self: cpu(syscall.RUSAGE_SELF), children: cpu(syscall.RUSAGE_CHILDREN)}
	ctx, m.stop = context.WithCancel(ctx)
	m.done.Go(func() {
		ticker := time.NewTicker(memoryTick)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				m.peak = max(m.peak, memory())
			}
		}
	})
	return m
}

// cost ends the measurement. Every child must have been waited for by then.
func (m *meter) cost() Cost {
	m.stop()
	m.done.Wait()
	return Cost{LabCPU: cpu(syscall.RUSAGE_SELF) - m.self, RestCPU: cpu(syscall.RUSAGE_CHILDREN) - m.children, Peak: m.peak}
}

func cpu(who int) time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(who, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// memory adds up the pages of this process and all that descend from it.
func memory() int64 {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	children := map[int][]int{}
	for _, p := range processes {
		if pid, err := strconv.Atoi(p.Name()); err == nil {
			children[parent(pid)] = append(children[parent(pid)], pid)
		}
	}
	var sum int64
	for family := []int{os.Getpid()}; len(family) > 0; {
		pid := family[0]
		family = append(family[1:], children[pid]...)
		sum += pages(pid)
	}
	return sum
}

// parent reads the parent of a process, the second field after its name in parentheses; 0 = it is gone.
func parent(pid int) int {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(string(fields[1]))
	return ppid
}

// pages are the bytes of a process in memory that are no file's.
func pages(pid int) int64 {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	var sum int64
	for line := range bytes.Lines(status) {
		for _, name := range []string{"RssAnon:", "RssShmem:"} {
			if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
				kb, _ := strconv.ParseInt(string(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))), 10, 64)
				sum += kb << 10
			}
		}
	}
	return sum
}
