package faultlab

import (
	"testing"

	"lastitem/faultlab/rig"
)

// Blocked follows from the answers between the holder's pause and its resumption.
func TestBlockedFor(t *testing.T) {
	t.Parallel()
	event := func(actor string, what rig.What, text string) rig.Event {
		return rig.Event{Actor: actor, What: what, Text: text}
	}
	asked, paused, resumed := event("B", rig.Asked, ""), event("A", rig.Paused, ""), event("A", rig.Resumed, "")
	ok, busy := event("B", rig.Answered, "ok"), event("B", rig.Answered, "declined lock_busy")
	for name, c := range map[string]struct {
		events []rig.Event
		want   Blocked
	}{
		"nobody stood still":       {[]rig.Event{asked, ok}, ""},
		"served at once":           {[]rig.Event{paused, asked, ok, resumed}, NotBlocked},
		"sold out is served":       {[]rig.Event{paused, asked, event("B", rig.Answered, "refused sold_out"), resumed}, NotBlocked},
		"served after a while":     {[]rig.Event{paused, asked, busy, asked, busy, asked, ok, resumed}, UntilLease},
		"never turned away, stuck": {[]rig.Event{paused, asked, event("B", rig.Blocked, ""), resumed, ok}, UntilHolder},
		"turned away to the end":   {[]rig.Event{paused, asked, busy, asked, busy, resumed, asked, ok}, UntilHolder},
		"A's own answer":           {[]rig.Event{paused, event("A", rig.Answered, "ok"), asked, busy, resumed}, UntilHolder},
	} {
		if got := blockedFor(c.events); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
