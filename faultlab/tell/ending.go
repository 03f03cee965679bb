package tell

import (
	"fmt"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab"
	"lastitem/say/text"
)

// Sentences that several reports share.
var (
	leftOutText     = text.Of("LEFT OUT, not played: %s\n")
	keptOutText     = text.Of("While A stood still, everybody else was kept out for (longest)")
	interruptedText = text.Of("Interrupted: the other cells have not been played to their end.\n")
)

// labFact is a name with what there is to say about it.
type labFact struct {
	Name  string
	Texts []string
}

// keptOut says how long others were kept out while A was stopped.
func keptOut(r *faultlab.Result) (all []labFact) {
	for _, c := range r.Cells {
		if c.Fault == api.Pause && c.BlockedFor > 0 {
			all = append(all, labFact{strings.TrimSpace(c.Mode + " " + string(c.Store)), []string{c.BlockedFor.String()}})
		}
	}
	return all
}

// writeBlocked writes keptOut.
func writeBlocked(b *strings.Builder, r *faultlab.Result, lang string) {
	head := "\n" + keptOutText.In(lang) + text.Of(":").In(lang) + "\n"
	for _, x := range keptOut(r) {
		fmt.Fprintf(b, "%s  %-23s %s\n", head, x.Name, x.Texts[0])
		head = ""
	}
}

func writeCounts(b *strings.Builder, r *faultlab.Result, lang string) {
	say := func(t text.Text, args ...any) { b.WriteString(t.With(args...).In(lang)) }
	b.WriteString("\n")
	say(text.Of("%d [cell|cells], %d [schedule|schedules] in %.0f s: %.1f a second"), len(r.Cells), r.Schedules,
		r.Took.Seconds(), float64(r.Schedules)/r.Took.Seconds())
	if r.Again > 0 {
		say(text.Of("; %d played again (the machine stood still, or the victim was turned away too early)"), r.Again)
	}
	left, cells := 0, 0
	for _, c := range r.Cells {
		if c.Left > 0 {
			left, cells = left+c.Left, cells+1
		}
	}
	if left > 0 {
		say(text.Of("; left out: %d [schedule|schedules] of %d [cell|cells] (--all plays them)"), left, cells)
	}
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(max(1, r.Schedules)) }
	say(text.Of("\nCPU time: %.0f ms per schedule, of which %.0f ms in the lab's own process; peak memory: %d MB"),
		per(r.Cost.LabCPU+r.Cost.RestCPU), per(r.Cost.LabCPU), r.Cost.Peak>>20)
	b.WriteString("\n")
}
