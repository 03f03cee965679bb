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

// Cost is the processor time and memory that an exploration used.
type Cost struct {
	// LabCPU is the processor time of the lab's own process, proxies and judge included; RestCPU is that of the replicas
	// and servers.
	LabCPU  time.Duration `json:"lab_cpu_ns"`
	RestCPU time.Duration `json:"rest_cpu_ns"`
	// Peak is the highest memory use of all these processes together, in bytes, sampled every second: anonymous and shared
	// pages, without pages of files. 0 = unknown, on systems without /proc.
	Peak int64 `json:"peak_bytes"`
}

// meter measures a cost.
type meter struct {
	self, children time.Duration // processor time at the start
	stop           context.CancelFunc
	done           sync.WaitGroup
	peak           int64
}

// memoryTick is how often the meter samples the memory.
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
	return Cost{LabCPU: cpu(syscall.RUSAGE_SELF) - m.self, RestCPU: cpu(syscall.RUSAGE_CHILDREN) - m.children,
		Peak: m.peak}
}

func cpu(who int) time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(who, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// memory returns the bytes that this process and all its descendants have in memory; 0 = unknown.
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
	for _, pid := range descendants(os.Getpid(), children) {
		sum += pages(pid)
	}
	return sum
}

// descendants lists a process and all its descendants, each once. The system may reuse a pid while /proc is read, so a
// process can seem to be its own descendant.
func descendants(pid int, children map[int][]int) []int {
	seen := map[int]bool{pid: true}
	family := []int{pid}
	for i := 0; i < len(family); i++ {
		for _, child := range children[family[i]] {
			if !seen[child] {
				seen[child] = true
				family = append(family, child)
			}
		}
	}
	return family
}

// parent returns the pid of a process's parent, the second field after the name in parentheses; 0 = the process is
// gone.
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

// pages returns the bytes that a process has in memory, without pages of files.
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

// stalls notices when the machine gives this process no processor time. A lock whose watchdog gets no processor time
// expires, and that says nothing about the mode.
type stalls struct {
	mu   sync.Mutex
	seen []stall
}

type stall struct {
	end  time.Time
	took time.Duration
}

// stallTick is the time between two checks; stallKept is how many stalls are remembered.
const (
	stallTick = 5 * time.Millisecond
	stallKept = 1024
)

// watch checks for stalls until ctx ends.
func (s *stalls) watch(ctx context.Context) {
	ticker := time.NewTicker(stallTick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		if late := now.Sub(last) - stallTick; late > 4*stallTick {
			s.mu.Lock()
			s.seen = append(s.seen, stall{now, late})
			if len(s.seen) > stallKept {
				s.seen = s.seen[stallKept/2:]
			}
			s.mu.Unlock()
		}
		last = now
	}
}

// longest returns the longest stall that ended after a given time.
func (s *stalls) longest(since time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var longest time.Duration
	for _, x := range s.seen {
		if x.end.After(since) {
			longest = max(longest, x.took)
		}
	}
	return longest
}
