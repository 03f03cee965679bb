package faultlab

import (
	"cmp"
	"slices"
	"time"

	"lastitem/faultlab/rig"
	"lastitem/judge"
)

// Story is a schedule as it happened: what each replica did, in the order of time.
type Story struct {
	Lines []Line `json:"lines"`
	// Initial, Left and Ordered are the ledger's figures at the end, in units.
	Initial int64 `json:"initial"`
	Left    int64 `json:"left"`
	Ordered int64 `json:"ordered"`
}

// Line is one event of a story.
type Line struct {
	At    time.Duration `json:"at_ns"` // since the schedule began
	Actor string        `json:"actor"` // "A", "B", "C"
	// Event is an action of the lab or of a client, see rig.Event; "" = a command of the service.
	Event rig.What `json:"event,omitempty"`
	Text  string   `json:"text,omitempty"`
}

// storyOf collects the story of a scene that was judged.
func storyOf(s *rig.Scene, r judge.Report) *Story {
	story := &Story{Initial: r.Initial, Left: r.Final, Ordered: r.Sold}
	for _, e := range s.Events() {
		story.Lines = append(story.Lines, Line{At: e.At, Actor: e.Actor, Event: e.What, Text: e.Text})
	}
	for _, c := range s.Calls() {
		story.Lines = append(story.Lines, Line{At: c.At, Actor: c.Actor, Text: c.Server + ": " + c.Text})
	}
	slices.SortStableFunc(story.Lines, func(a, b Line) int { return cmp.Compare(a.At, b.At) })
	return story
}
