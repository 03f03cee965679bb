package faultlab

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/say/report"
	"lastitem/say/text"
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

// tell collects the story of a scene.
func tell(s *rig.Scene, p Played) *Story {
	story := &Story{Initial: p.Report.Initial, Left: p.Report.Final, Ordered: p.Report.Sold}
	for _, e := range s.Events() {
		story.Lines = append(story.Lines, Line{At: e.At, Actor: e.Actor, Event: e.What, Text: e.Text})
	}
	for _, c := range s.Calls() {
		story.Lines = append(story.Lines, Line{At: c.At, Actor: c.Actor, Text: c.Server + ": " + c.Text})
	}
	slices.SortStableFunc(story.Lines, func(a, b Line) int { return cmp.Compare(a.At, b.At) })
	return story
}

// storyWords are the words of a story, by language.
type storyWords struct {
	events map[rig.What]string
	busy   string // a format; its value is how often
	ledger string // a format; its values are initial, left and ordered
}

var storyTexts = text.Table(storyWords{
	events: map[rig.What]string{
		rig.Asked: "> a client asks", rig.Reserves: "> a client reserves a unit", rig.Pays: "> a client pays",
		rig.Cancels: "> a client cancels", rig.Answered: "<", rig.Held: "** held", rig.Passed: "** let go on",
		rig.Blocked: "** blocked",
		rig.Paused:  "** stopped (SIGSTOP)", rig.Resumed: "** goes on (SIGCONT)", rig.Killed: "** killed (SIGKILL)",
		rig.Broken: "** its connection breaks", rig.Lost: "** the answer is lost", rig.FailedOver: "** failover",
		rig.Terminated: "** receives SIGTERM", rig.HasEnded: "** has exited", rig.SessionEnded: "** its session is ended in",
		rig.DatabaseKilled: "** the database is killed (SIGKILL)", rig.DatabaseBack: "** the database has restarted",
		rig.RowsLocked: "** another transaction locks rows of", rig.RowsFree: "** the row locks are released",
		rig.ReadOnly: "** the database is read-only", rig.WritableAgain: "** the database accepts writes again",
		rig.Struck: "** server:",
	},
	busy: "> asks %d times: lock_busy", ledger: "ledger: %d at first, %d left, %d ordered",
})

// Write writes the outcome of the schedule, and its story in three columns.
func (p Played) Write(w io.Writer, lang string) error {
	_, err := io.WriteString(w, p.text(lang))
	return err
}

func (p Played) text(lang string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s\n", p.Schedule, p.Outcome)
	if p.Why != "" {
		fmt.Fprintf(&b, "%s\n", p.Why)
	}
	if p.Story != nil {
		p.Story.write(&b, storyTexts.In(lang))
	}
	return b.String() + "\n"
}

// laneWidth is the width of a column of the story.
const laneWidth = 50

func (s *Story) write(b *strings.Builder, t storyWords) {
	fmt.Fprintf(b, "\n%8s  %s%s%s\n", "ms", report.Left("A", laneWidth), report.Left("B", laneWidth), "C")
	lines := s.Lines
	for len(lines) > 0 {
		line := lines[0]
		text := line.text(t)
		busy, used := turnedAway(lines)
		if busy > 1 {
			text = fmt.Sprintf(t.busy, busy)
		} else {
			used = 1
		}
		lines = lines[used:]
		column := strings.Repeat(" ", int(line.Actor[0]-'A')*laneWidth)
		fmt.Fprintf(b, "%8.1f  %s%s\n", float64(line.At.Microseconds())/1000, column, shorten(text, laneWidth-2))
	}
	fmt.Fprintf(b, "\n"+t.ledger+"\n", s.Initial, s.Left, s.Ordered)
}

// text is the line without its actor.
func (l Line) text(t storyWords) string {
	if l.Event == "" {
		return l.Text
	}
	return strings.TrimSpace(t.events[l.Event] + " " + l.Text)
}

// turnedAway returns how many requests of the first line's actor were refused before anything else happened, and how
// many lines they take.
func turnedAway(lines []Line) (times, used int) {
	actor, open := lines[0].Actor, false
	for i, l := range lines {
		switch {
		case l.Actor != actor:
			return times, used
		case l.Event == rig.Asked && !open:
			open = true
		case l.Event == rig.Answered && open && strings.HasSuffix(l.Text, string(api.LockBusy)):
			times, used, open = times+1, i+1, false
		case l.Event != "" || !open:
			return times, used
		}
	}
	return times, used
}

// shorten cuts a text that is too long, and marks the cut.
func shorten(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}
