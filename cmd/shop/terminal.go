package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"lastitem/loadtest"
)

// terminal returns whether w is a terminal, and how many columns it has: those of COLUMNS if w is none and COLUMNS is set,
// and 0 where nobody knows.
func terminal(w io.Writer) (is bool, columns int) {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if wide, _, err := term.GetSize(int(f.Fd())); err == nil {
			return true, wide
		}
		return true, 0
	}
	columns, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err != nil {
		columns = 0
	}
	return false, max(0, columns)
}

// styleFor returns how to draw on w: in colour only on a terminal that does not refuse it (NO_COLOR, TERM=dumb).
func styleFor(w io.Writer, lang string, noColor bool) loadtest.Style {
	is, columns := terminal(w)
	color := is && !noColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return loadtest.Style{Lang: lang, Width: columns, Color: color}
}

// checkLang refuses a language that no report is written in.
func checkLang(lang string) error {
	if !slices.Contains(loadtest.Languages, lang) {
		return usage("--lang %q: want %s", lang, strings.Join(loadtest.Languages, " or "))
	}
	return nil
}

// How often a line on a terminal is rewritten at most, and how often elsewhere a run that takes long gets another line.
const (
	tick     = 200 * time.Millisecond
	slowTick = 5 * time.Second
)

// progressLine tells on stderr where a comparison is. On a terminal it rewrites one line; elsewhere, if lines is set, it writes a line
// when a run has ended, and every slowTick until then.
type progressLine struct {
	w        io.Writer
	terminal bool
	lines    bool
	columns  int
	last     time.Time
}

// newProgress returns the progress for w; nil, which is told nothing, where quiet.
func newProgress(w io.Writer, quiet, lines bool) *progressLine {
	if quiet {
		return nil
	}
	is, columns := terminal(w)
	return &progressLine{w: w, terminal: is && os.Getenv("TERM") != "dumb", lines: lines, columns: columns}
}

// step is the callback of loadtest.Compare.
func (p *progressLine) step(s loadtest.Step) {
	if p == nil || (!p.terminal && !p.lines) {
		return
	}
	text := fmt.Sprintf("[%d/%d] %s", s.Index, s.Total, s.Mode)
	if s.Repetition > 1 {
		text += fmt.Sprintf(" (repetition %d)", s.Repetition)
	}
	switch {
	case s.Done:
		text += doneText(s)
	case s.Running != nil:
		every := tick // a terminal that is written to more often only flickers
		if !p.terminal {
			every = slowTick
		}
		if time.Since(p.last) < every {
			return
		}
		text += fmt.Sprintf(" %.1fs", s.Elapsed.Seconds()) + runningText(*s.Running)
	case !p.terminal:
		p.last = time.Now()
		return
	}
	p.last = time.Now()
	p.write(text, s.Done && p.lines)
}

// write puts text on the line, and leaves it there if it is to stay.
func (p *progressLine) write(text string, stay bool) {
	if !p.terminal {
		fmt.Fprintln(p.w, text)
		return
	}
	if p.columns > 1 && len(text) >= p.columns {
		text = text[:p.columns-1] // ASCII: names of modes, phases and numbers
	}
	end := ""
	if stay {
		end = "\n"
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s%s", text, end)
}

// clear removes the line that is being rewritten, so that the result begins on an empty one.
func (p *progressLine) clear() {
	if p != nil && p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// doneText words how a run ended.
func doneText(s loadtest.Step) string {
	text := fmt.Sprintf(" ... %.1fs", s.Elapsed.Seconds())
	switch {
	case errors.Is(s.Err, context.Canceled):
		return text + " interrupted"
	case s.Err != nil && s.Result == nil:
		return text + " failed"
	case s.Result != nil && s.Result.Finding != "":
		return text + " " + string(s.Result.Finding)
	}
	return text
}

// runningText words where a run is.
func runningText(p loadtest.Progress) string {
	if p.Phase != loadtest.Driving {
		return " " + string(p.Phase)
	}
	text := fmt.Sprintf(" %3.0f%%  accepted %d, refused %d", 100*p.Done, p.Accepted, p.Refused)
	if p.Failed > 0 {
		text += fmt.Sprintf(", failed %d", p.Failed)
	}
	if p.Dropped > 0 {
		text += fmt.Sprintf(", dropped %d", p.Dropped)
	}
	return text
}
