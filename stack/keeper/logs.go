package keeper

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// logTail is how much of a log is looked at for its last lines.
const logTail = 16 << 10

// Log is the path of a file that takes what a child says.
type Log string

// LogOf returns the log of a child of this name in the private directory.
func LogOf(dir, name string) Log {
	return Log(filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".log"))
}

// Last returns the last lines from offset on, at most n; none where it cannot be read.
func (l Log) Last(offset int64, n int) []string {
	f, err := os.Open(string(l))
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

// Cause says why a process has ended, as far as the log tells: by a line about a full disk, else by the last about an
// error.
func (l Log) Cause() (said string) {
	for _, line := range l.Last(0, 1000) {
		if wrong.MatchString(line) && !strings.HasSuffix(line, "Aborting") {
			said = ": " + strings.TrimSpace(line)
		}
		if full.MatchString(line) {
			said += " (no space left on device)"
			break
		}
	}
	return said
}

// wrong matches lines in which servers and installers say why they end, and full those that mean ENOSPC.
var (
	wrong = regexp.MustCompile(`(?i)\berror\b|errcode|fatal|no space left|permission denied|cannot|can't`)
	full  = regexp.MustCompile(`(?i)no space left|err(or|code|no)[: =]+28\b`)
)

// Tail returns the last lines of the log for an error message, indented, on lines of their own; "" when there are none.
func (l Log) Tail() string {
	const most = 2048
	data, err := os.ReadFile(string(l))
	if err != nil {
		return ""
	}
	data = data[max(0, len(data)-most):]
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	lines = lines[max(0, len(lines)-8):]
	if len(lines) == 1 && lines[0] == "" {
		return ""
	}
	return "\n    " + strings.Join(lines, "\n    ")
}
