package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"lastitem/faultlab"
	"lastitem/internal/columns"
)

// labLine tells on stderr how far the lab is. On a terminal the last line shows it, below everything that is written through the labLine;
// elsewhere a line is written now and then. It is safe for concurrent use.
type labLine struct {
	w        io.Writer
	lang     string
	terminal bool
	columns  int
	length   time.Duration // of random schedules; 0 = the lab ends when all schedules have been played

	mu    sync.Mutex
	begun time.Time // when the first schedule was through
	last  time.Time // when the line was written
	shown string    // the text of the terminal's last line
	rates []float64 // schedules per second of late
	since time.Time // the end of the last of them
	until int       // the schedules until then
}

// A sparkline of the lab has a rate for each labStep, since schedules take longer than requests. labSlow is how often a line is written where
// nothing can be rewritten: the cells that are through have lines of their own.
const (
	labStep = time.Second
	labSlow = 30 * time.Second
)

// labWords are the words of the line, by language.
var labWords = map[string]struct{ schedules, known, rate, left, ending string }{
	"en": {"  %d schedules", "  %d of %d schedules", "  %s %.1f/s", "  about %s left", "  ending"},
	"zh": {"  %d 个调度", "  调度 %d/%d", "  %s %.1f/秒", "  约剩 %s", "  收尾"},
}

func newLabLine(w io.Writer, lang string) *labLine {
	is, wide := terminal(w)
	return &labLine{w: w, lang: lang, terminal: is && os.Getenv("TERM") != "dumb", columns: wide}
}

// Write writes text above the line.
func (l *labLine) Write(text []byte) (n int, err error) {
	l.above(func() { n, err = l.w.Write(text) })
	return n, err
}

// above lets write write whole lines above the line.
func (l *labLine) above(write func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	shown := l.shown
	l.show("")
	write()
	l.show(shown)
}

// clear takes the line off the terminal.
func (l *labLine) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terminal && !l.begun.IsZero() { // ^C may stand there too
		fmt.Fprint(l.w, "\r\x1b[K")
	}
	l.shown = ""
}

// show replaces the line; l.mu is held.
func (l *labLine) show(text string) {
	if l.shown != "" || text != "" {
		fmt.Fprintf(l.w, "\r\x1b[K%s", text)
	}
	l.shown = text
}

// tally is the callback of faultlab.Options.Tally.
func (l *labLine) tally(t faultlab.Tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, every := time.Now(), tick
	if !l.terminal {
		every = labSlow
	}
	switch {
	case t.Schedules == 0:
		return
	case l.begun.IsZero():
		l.begun, l.since, l.last, l.until = now, now, now, t.Schedules
		return
	}
	if d := now.Sub(l.since); d >= labStep {
		l.rates = append(l.rates, float64(t.Schedules-l.until)/d.Seconds())
		l.rates = l.rates[max(0, len(l.rates)-courseLength):]
		l.since, l.until = now, t.Schedules
	}
	if now.Sub(l.last) < every {
		return
	}
	l.last = now
	if text := l.text(t, now.Sub(l.begun)); l.terminal {
		l.show(fitted(text, l.columns))
	} else {
		fmt.Fprintln(l.w, text)
	}
}

// text words a tally, this long after the first schedule.
func (l *labLine) text(t faultlab.Tally, took time.Duration) string {
	words, text := labWords[l.lang], strings.TrimSpace(fmt.Sprintf("%s %s %s", t.Cell.Mode, t.Cell.Store, t.Cell.Fault))
	left := l.length - took
	if t.Cells > 0 {
		text = fmt.Sprintf("[%d/%d] %s", t.Done, t.Cells, text)
	}
	if t.Expected > 0 {
		text += fmt.Sprintf(words.known, t.Schedules, max(t.Expected, t.Schedules))
		left = time.Duration(float64(took) * float64(t.Expected-t.Schedules) / float64(max(1, t.Schedules-1)))
	} else {
		text += fmt.Sprintf(words.schedules, t.Schedules)
	}
	if n := len(l.rates); n > 0 {
		text += fmt.Sprintf(words.rate, columns.Spark(l.rates), l.rates[n-1])
	}
	if left <= 0 {
		return text + words.ending
	}
	return text + fmt.Sprintf(words.left, left.Round(time.Second))
}
