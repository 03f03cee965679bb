package tell

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"lastitem/contract/api"
	"lastitem/faultlab"
	"lastitem/faultlab/rig"
	"lastitem/say/report"
	"lastitem/say/text"
)

// storyWords are the words of a story, by language.
type storyWords struct {
	events map[rig.What]string
	busy   string // a format; its value is how often
	ledger string // a format; its values are initial, left and ordered
}

var storyTexts = text.Table(storyWords{
	events: map[rig.What]string{
		rig.Asked: "> a client asks", rig.Reserves: "> a client reserves a unit", rig.Pays: "> a client pays",
		rig.Cancels: "> a client cancels", rig.Ships: "> the order is shipped",
		rig.Extends: "> a client extends", rig.Returns: "> units are returned",
		rig.Adjusts: "> the stock is adjusted", rig.Answered: "<", rig.Held: "** held", rig.Passed: "** let go on",
		rig.Blocked: "** blocked",
		rig.Paused:  "** stopped (SIGSTOP)", rig.Resumed: "** goes on (SIGCONT)", rig.Killed: "** killed (SIGKILL)",
		rig.Broken: "** its connection breaks", rig.Lost: "** the answer is lost", rig.FailedOver: "** failover",
		rig.Terminated: "** receives SIGTERM", rig.HasEnded: "** has exited", rig.SessionEnded: "** its session is ended in",
		rig.DatabaseKilled: "** the database is killed (SIGKILL)", rig.DatabaseBack: "** the database has restarted",
		rig.RowsLocked: "** another transaction locks rows of", rig.RowsFree: "** the row locks are released",
		rig.ReadOnly: "** the database is read-only", rig.WritableAgain: "** the database accepts writes again",
		rig.Struck: "** server:",
	},
	busy: "> asks %s times: lock_busy", ledger: "ledger: %d at first, %d left, %d ordered",
})

// Story writes the outcome of a schedule, and its story in three columns.
func Story(w io.Writer, p faultlab.Played, lang string) error {
	_, err := io.WriteString(w, storyOf(p, lang))
	return err
}

func storyOf(p faultlab.Played, lang string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s\n", p.Schedule, p.Outcome)
	if p.Why != "" {
		fmt.Fprintf(&b, "%s\n", p.Why)
	}
	if p.Story != nil {
		writeStory(&b, p.Story, storyTexts.In(lang))
	}
	return b.String() + "\n"
}

// laneWidth is the width of a column of the story.
const laneWidth = 50

func writeStory(b *strings.Builder, s *faultlab.Story, t storyWords) {
	fmt.Fprintf(b, "\n%8s  %s%s%s\n", "ms", report.Left("A", laneWidth), report.Left("B", laneWidth), "C")
	for _, line := range folded(s.Lines) {
		column := strings.Repeat(" ", int(line.Actor[0]-'A')*laneWidth)
		fmt.Fprintf(b, "%8.1f  %s%s\n", float64(line.At.Microseconds())/1000, column, shorten(said(line, t), laneWidth-2))
	}
	fmt.Fprintf(b, "\n"+t.ledger+"\n", s.Initial, s.Left, s.Ordered)
}

// said is the line without its actor.
func said(l faultlab.Line, t storyWords) string {
	switch l.Event {
	case "":
		return l.Text
	case Busy:
		return fmt.Sprintf(t.busy, l.Text)
	}
	return strings.TrimSpace(t.events[l.Event] + " " + l.Text)
}

// Busy is the event of a client that was refused several times in a row because of a lock; the text is the number of
// refusals.
const Busy rig.What = "busy"

// folded makes repeated refusals one line.
func folded(lines []faultlab.Line) (all []faultlab.Line) {
	for len(lines) > 0 {
		l := lines[0]
		times, used := turnedAway(lines)
		if times > 1 {
			l.Event, l.Text = Busy, strconv.Itoa(times)
		} else {
			used = 1
		}
		all, lines = append(all, l), lines[used:]
	}
	return all
}

// turnedAway returns how many requests of the first line's actor were refused before anything else happened, and how
// many lines they take.
func turnedAway(lines []faultlab.Line) (times, used int) {
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
