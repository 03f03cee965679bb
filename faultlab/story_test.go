package faultlab

import (
	"strings"
	"testing"
	"time"

	"lastitem/faultlab/rig"
)

// The repeated refusals of a rival take one line of the story.
func TestStoryFoldsBusyAnswers(t *testing.T) {
	t.Parallel()
	var lines []Line
	add := func(actor string, event rig.What, text string) {
		lines = append(lines, Line{At: time.Duration(len(lines)) * time.Millisecond, Actor: actor, Event: event, Text: text})
	}
	add("A", rig.Held, "before redis: SET stock:{#}")
	for range 3 {
		add("B", rig.Asked, "")
		add("B", "", "redis: SET lock NX")
		add("B", rig.Answered, "declined lock_busy")
	}
	add("B", rig.Asked, "")
	add("B", "", "redis: SET lock NX")
	add("B", rig.Answered, "ok")
	var b strings.Builder
	(&Story{Lines: lines, Initial: 10, Left: 9, Ordered: 1}).write(&b, storyTexts["en"])
	text := b.String()
	for what, times := range map[string]int{"> asks 3 times: lock_busy": 1, "> a client asks": 1, "SET lock NX": 1, "< ok": 1, "ledger: 10 at first, 9 left, 1 ordered": 1} {
		if got := strings.Count(text, what); got != times {
			t.Errorf("%q stands %d times, want %d:\n%s", what, got, times, text)
		}
	}
}
