package faultlab

import (
	"strings"
	"time"

	"lastitem/faultlab/rig"
	"lastitem/internal/audit"
)

// Blocked says how long a holder that stands still keeps everybody else out. It is told by what happened, not by the clock.
type Blocked string

// From the shortest to the longest.
const (
	NotBlocked  Blocked = "no"     // the rival's first request was served
	UntilLease  Blocked = "lease"  // the rival was turned away for a while, and served before the holder went on
	UntilHolder Blocked = "holder" // nobody was served before the holder went on
)

var longer = map[Blocked]int{"": 0, NotBlocked: 1, UntilLease: 2, UntilHolder: 3}

// blockedFor reads it from the events of a schedule: from A's pause to its end, what did B's requests come to? "" = A did not pause.
func blockedFor(events []rig.Event) Blocked {
	found := Blocked("")
	var from time.Duration
	for _, e := range events {
		switch {
		case e.What == rig.Paused:
			found, from = NotBlocked, e.At
		case found == "" || e.At < from:
		case e.What == rig.Resumed:
			return UntilHolder
		case e.What == rig.Answered && e.Actor != "A" && !strings.HasPrefix(e.Text, string(audit.Declined)):
			return found
		case e.What == rig.Answered && e.Actor != "A":
			found = UntilLease
		}
	}
	return found
}
