// Package machine says what a benchmark ran on, and what else the machine was doing meanwhile.
package machine

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Facts are what every number depends on.
type Facts struct {
	Date   string `json:"date"`
	Commit string `json:"commit"`
	Go     string `json:"go"`
	System string `json:"system"`
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Load   string `json:"load_average,omitempty"` // when the run began
}

// Gather returns the facts of now; commit is that of the program.
func Gather(commit string) Facts {
	return Facts{
		Date: time.Now().UTC().Format(time.RFC3339), Commit: commit, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		CPU: CPU(), Cores: runtime.NumCPU(), Load: Load(),
	}
}

// Machine is what the run is on, in a line.
func (f Facts) Machine() string {
	return fmt.Sprintf("%s, %d cores (%s), %s, load average %s at the start", f.Go, f.Cores, f.CPU, f.System, f.Load)
}

// CPU is the processor's name, "unknown" where the kernel does not tell.
func CPU() string { return field("/proc/cpuinfo", "model name") }

// Load is the load average of the last minute, "" where the kernel does not tell.
func Load() string {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	last, _, _ := strings.Cut(string(load), " ")
	return last
}

// field reads "name : value" from a file of the kernel's, "unknown" where there is none.
func field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
