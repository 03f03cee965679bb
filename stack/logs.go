package stack

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// logTail is how much of a log is looked at for its last lines.
const logTail = 16 << 10

// logFile is the name of a child's log in the private directory.
func logFile(name string) string { return strings.ReplaceAll(name, " ", "-") + ".log" }

// MarkLogs notes how long the replicas' logs are, and returns what gives the last lines that each has written since, at
// most n of each, with the replica's name before the line: "replica 2: ...". After Close there are none.
func (s *Stack) MarkLogs() (since func(n int) []string) {
	marks := make([]int64, len(s.Replicas))
	path := func(i int) string { return filepath.Join(s.Dir, logFile(s.Replicas[i].Name)) }
	for i := range s.Replicas {
		if info, err := os.Stat(path(i)); err == nil {
			marks[i] = info.Size()
		}
	}
	return func(n int) []string {
		var all []string
		for i, r := range s.Replicas {
			for _, line := range lastLines(path(i), marks[i], n) {
				all = append(all, fmt.Sprintf("%s: %s", r.Name, line))
			}
		}
		return all
	}
}

// LastLines returns the last lines of a child's log, at most n; nil = none can be read.
func (r *Running) LastLines(n int) []string { return lastLines(r.p.log, 0, n) }

// lastLines returns the last lines of a file from offset on, at most n; none where it cannot be read.
func lastLines(path string, offset int64, n int) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	from := max(offset, info.Size()-logTail)
	text, err := io.ReadAll(io.NewSectionReader(f, from, logTail))
	if err != nil {
		return nil
	}
	lines := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	if from > offset && len(lines) > 0 {
		lines = lines[1:] // most likely a part
	}
	return lines[max(0, len(lines)-n):]
}
