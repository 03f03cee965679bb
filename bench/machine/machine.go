// Package machine says what a benchmark ran on, and what else the machine was doing meanwhile.
package machine

import (
	"os"
	"strings"
)

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
