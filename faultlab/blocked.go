package faultlab

import (
	"strings"
	"time"

	"lastitem/faultlab/rig"
	"lastitem/internal/audit"
)

// Blocked says how long a paused holder keeps other requests for the product from being served. It follows from the order of events, not
// from the clock.
type Blocked string

// The values, from the shortest to the longest.
const (
	NotBlocked  Blocked = "no"     // a request of the rival was answered during the pause, and none was declined before it
	UntilLease  Blocked = "lease"  // the rival was declined first, and served while the holder was still paused
	UntilHolder Blocked = "holder" // nobody was served before the holder resumed
)

var longer = map[Blocked]int{"": 0, NotBlocked: 1, UntilLease: 2, UntilHolder: 3}

// blockedFor derives Blocked from the events of a schedule between A's pause and A's resumption; "" = A was not paused.
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
