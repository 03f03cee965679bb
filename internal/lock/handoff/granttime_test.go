package handoff_test

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/internal/testenv"
)

// A message says when a lock was granted at the latest, and its receiver counts the lease from then. So the script reads the clock before
// it sets the lock. If it read the clock later, and the server stopped in between, the receiver would rely on an expired lock.
func TestGrantIsNoYoungerThanItsMessage(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	key := s.Prefix + "{granted}"
	held, got := contended(t, s, key)
	lines := monitor(t, s)
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := (<-got).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	var inside []string // the commands of scripts about this key up to the message, and all that ask for the time
	for lines.Scan() {
		_, command, script := strings.Cut(lines.Text(), "lua] ")
		if script && (strings.HasPrefix(command, `"TIME"`) || strings.Contains(command, key)) {
			inside = append(inside, command)
		}
		if strings.HasPrefix(command, `"PUBLISH"`) && strings.Contains(command, key) {
			break
		}
	}
	set := slices.IndexFunc(inside, func(c string) bool { return strings.HasPrefix(c, `"SET" "`+key+`"`) })
	if set < 0 || !slices.ContainsFunc(inside[:set], func(c string) bool { return strings.HasPrefix(c, `"TIME"`) }) ||
		slices.ContainsFunc(inside[set:], func(c string) bool { return strings.HasPrefix(c, `"TIME"`) }) {
		t.Errorf("the clock is read after the lock was set, or not at all: %q", inside)
	}
}

// monitor returns the commands that a server runs from now on, for a minute at most.
func monitor(t *testing.T, s *testenv.RedisServer) *bufio.Scanner {
	t.Helper()
	o := s.Client.Options()
	conn, err := net.Dial("tcp", o.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(testenv.Still)); err != nil {
		t.Fatal(err)
	}
	lines, commands := bufio.NewScanner(conn), []string{"MONITOR"}
	if o.Password != "" {
		commands = []string{"AUTH " + o.Password, "MONITOR"}
	}
	for _, command := range commands {
		if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil || !lines.Scan() || lines.Text() != "+OK" {
			t.Fatalf("%s: %v, %q", command, err, lines.Text())
		}
	}
	return lines
}
