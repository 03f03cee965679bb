// Package machine describes the machine of a benchmark, and its other load meanwhile.
package machine

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Facts are the conditions of every number.
type Facts struct {
	Date   string `json:"date"`
	Commit string `json:"commit"`
	Go     string `json:"go"`
	System string `json:"system"`
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Load   string `json:"load_average,omitempty"` // when the run began
}

// Gather returns the current facts; commit is the program's commit.
func Gather(commit string) Facts {
	return Facts{
		Date: time.Now().UTC().Format(time.RFC3339), Commit: commit, Go: runtime.Version(),
		System: runtime.GOOS + "/" + runtime.GOARCH,
		CPU:    CPU(), Cores: runtime.NumCPU(), Load: Load(),
	}
}

// Machine returns the description of the machine in one line.
func (f Facts) Machine() string {
	return fmt.Sprintf("%s, %d cores (%s), %s, load average %s at the start", f.Go, f.Cores, f.CPU, f.System, f.Load)
}

// CPU returns the processor's name, "unknown" if the kernel does not tell.
func CPU() string { return field("/proc/cpuinfo", "model name") }

// Load returns the load average of the last minute, "" if the kernel does not tell.
func Load() string {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	last, _, _ := strings.Cut(string(load), " ")
	return last
}

// field reads "name : value" from a file of the kernel, "unknown" if it is missing.
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
