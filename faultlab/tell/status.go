package tell

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"lastitem/faultlab"
	"lastitem/say/report"
	"lastitem/say/text"
)

// StatusLine tells how far the lab is. On a terminal the last line shows it, below everything that is written by way of
// it; elsewhere a line is written every half minute. It is safe for concurrent use.
type StatusLine struct {
	w        io.Writer
	lang     string
	terminal bool
	columns  int
	length   time.Duration // of random schedules; 0 = the lab ends when all schedules have been played

	mu    sync.Mutex
	begun time.Time   // when the first schedule had been played
	last  time.Time   // when the line was written
	shown string      // the text of the terminal's last line
	rates []float64   // schedules per second of late
	since time.Time   // the end of the last of them
	until int         // the schedules until then
	ends  []time.Time // of the last schedules
}

// The sparkline shows lineRates rates, one for each lineStep, since schedules take longer than requests. A terminal's
// line is rewritten every lineTick at most. lineSlow is how often a line is written where nothing can be rewritten:
// complete cells have lines of their own. lineEnds is how many schedules count as those of late.
const (
	lineEnds  = 8
	lineRates = 16
	lineStep  = time.Second
	lineTick  = 200 * time.Millisecond
	lineSlow  = 30 * time.Second
)

// lineWords are the words of the line, by language.
var lineWords = text.Table(struct{ schedules, known, rate, left, ending string }{"  %d [schedule|schedules]",
	"  %d of %d [schedule|schedules]", "  %s %.1f/s", "  about %s left", "  ending"})

// NewStatusLine returns the line for w, in the language lang.
func NewStatusLine(w io.Writer, lang string) *StatusLine {
	is, wide := report.Rewritable(w)
	return &StatusLine{w: w, lang: lang, terminal: is, columns: wide}
}

// Lasts says that the lab plays random schedules for so long. It must be called before the first tally.
func (l *StatusLine) Lasts(d time.Duration) { l.length = d }

// Write writes text above the line.
func (l *StatusLine) Write(said []byte) (n int, err error) {
	l.Above(func() { n, err = l.w.Write(said) })
	return n, err
}

// Above lets write write whole lines above the line.
func (l *StatusLine) Above(write func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	shown := l.shown
	l.show("")
	write()
	l.show(shown)
}

// Clear takes the line off the terminal.
func (l *StatusLine) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terminal && !l.begun.IsZero() { // ^C may stand there too
		report.Rewrite(l.w, "")
	}
	l.shown = ""
}

// show replaces the line; l.mu is held.
func (l *StatusLine) show(said string) {
	if l.shown != "" || said != "" {
		report.Rewrite(l.w, said)
	}
	l.shown = said
}

// Tally is the callback of Options.Tally.
func (l *StatusLine) Tally(t faultlab.Tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, every := time.Now(), lineTick
	if !l.terminal {
		every = lineSlow
	}
	switch {
	case t.Schedules == 0:
		return
	case l.begun.IsZero():
		l.begun, l.since, l.last, l.until = now, now, now, t.Schedules
		return
	}
	l.ends = append(l.ends, now)
	l.ends = l.ends[max(0, len(l.ends)-lineEnds):]
	if d := now.Sub(l.since); d >= lineStep {
		l.rates = append(l.rates, float64(t.Schedules-l.until)/d.Seconds())
		l.rates = l.rates[max(0, len(l.rates)-lineRates):]
		l.since, l.until = now, t.Schedules
	}
	if now.Sub(l.last) < every {
		return
	}
	l.last = now
	if said := l.text(t, now.Sub(l.begun)); l.terminal {
		l.show(report.Fitted(said, l.columns))
	} else {
		fmt.Fprintln(l.w, said)
	}
}

// text words a tally, this long after the first schedule.
func (l *StatusLine) text(t faultlab.Tally, took time.Duration) string {
	words, said := lineWords.In(l.lang), strings.TrimSpace(fmt.Sprintf("%s %s %s", t.Cell.Mode, t.Cell.Store,
		t.Cell.Fault))
	left := l.length - took
	if t.Cells > 0 {
		said = fmt.Sprintf("[%d/%d] %s", t.Done, t.Cells, said)
	}
	if t.Expected > 0 {
		said += text.Sprintf(words.known, t.Schedules, max(t.Expected, t.Schedules))
		each := took / time.Duration(max(1, t.Schedules-1))
		if n := len(l.ends) - 1; n > 0 { // those of late may take longer, and so will their like
			each = max(each, l.ends[n].Sub(l.ends[0])/time.Duration(n))
		}
		left = each * time.Duration(t.Expected-t.Schedules)
	} else {
		said += text.Sprintf(words.schedules, t.Schedules)
	}
	if n := len(l.rates); n > 0 {
		said += fmt.Sprintf(words.rate, report.Spark(l.rates), l.rates[n-1])
	}
	if left <= 0 {
		return said + words.ending
	}
	return said + fmt.Sprintf(words.left, left.Round(time.Second))
}
