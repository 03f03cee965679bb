package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/compare"
	layout "lastitem/say/report"
	"lastitem/say/text"
)

// StyleFor returns how to draw on w: in colour only on a terminal that does not refuse it (NO_COLOR, TERM=dumb).
func StyleFor(w io.Writer, lang string, noColor bool) Style {
	is, wide := layout.Terminal(w)
	color := is && !noColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return Style{Lang: lang, Width: wide, Color: color}
}

// The least time between rewrites of a line on a terminal, and elsewhere between two lines about a long run.
const (
	tick     = 200 * time.Millisecond
	slowTick = 5 * time.Second
)

// Progress tells on a terminal where a comparison is. On a terminal it rewrites one line; elsewhere, if lines is set,
// it writes a line when a run has ended, and every slowTick until then.
type Progress struct {
	w        io.Writer
	lang     string
	terminal bool
	lines    bool
	columns  int
	last     time.Time
	course   course
}

// NewProgress returns the progress for w; nil, which is told nothing, where quiet.
func NewProgress(w io.Writer, lang string, quiet, lines bool) *Progress {
	if quiet {
		return nil
	}
	is, wide := layout.Rewritable(w)
	return &Progress{w: w, lang: lang, terminal: is, lines: lines, columns: wide}
}

// step is the callback of compare.Modes.
func (p *Progress) step(s compare.Step) {
	if p == nil || (!p.terminal && !p.lines) {
		return
	}
	text := fmt.Sprintf("[%d/%d] %s", s.Index, s.Total, s.Mode)
	if s.Repetition > 1 {
		text += fmt.Sprintf(progressWords.In(p.lang).repetition, s.Repetition)
	}
	if s.Running == nil {
		p.course = course{}
	}
	switch {
	case s.Done:
		text += doneText(s, p.lang)
	case s.Running != nil:
		p.course.take(*s.Running)
		every := tick // a terminal that is written to more often only flickers
		if !p.terminal {
			every = slowTick
		}
		if time.Since(p.last) < every {
			return
		}
		text += fmt.Sprintf(" %.1fs", s.Elapsed.Seconds()) + runningText(*s.Running, p.course.text(p.lang), p.lang)
	case !p.terminal:
		p.last = time.Now()
		return
	}
	p.last = time.Now()
	p.write(text, s.Done && p.lines)
}

// write puts text on the line, and leaves it there if it is to stay.
func (p *Progress) write(text string, stay bool) {
	if !p.terminal {
		fmt.Fprintln(p.w, text)
		return
	}
	end := ""
	if stay {
		end = "\n"
	}
	layout.Rewrite(p.w, layout.Fitted(text, p.columns)+end)
}

// Compare makes a comparison, and tells where it is.
func (p *Progress) Compare(ctx context.Context, what compare.Comparing) (compare.Comparison, error) {
	what.Progress = p.step
	c, err := compare.Modes(ctx, what)
	p.clear()
	return c, err
}

// clear removes the line that is being rewritten, so that the result begins on an empty one.
func (p *Progress) clear() {
	if p != nil && p.terminal {
		layout.Rewrite(p.w, "")
	}
}

// progressWords are the words of the progress, by language.
var progressWords = text.Table(struct {
	repetition, interrupted, failed string
	rate, driving                   string
	drivingFailed, drivingDrops     string
	phases                          map[loadtest.Phase]string
	findings                        map[judge.Finding]string
}{
	repetition: " (repetition %d)", interrupted: " interrupted", failed: " failed",
	rate: "  %s %.0f/s", driving: "  accepted %d, refused %d", drivingFailed: ", failed %d", drivingDrops: ", dropped %d",
	phases: map[loadtest.Phase]string{
		loadtest.Resetting: "reset", loadtest.Arranging: "arrange", loadtest.Warming: "warmup", loadtest.Settling: "settle",
		loadtest.Judging: "judge",
	},
	findings: map[judge.Finding]string{
		judge.Confirmed: "confirmed", judge.Contradicted: "contradicted", judge.Undecided: "inconclusive",
		judge.Unclaimed: "unclaimed",
	},
})

// doneText words how a run ended.
func doneText(s compare.Step, lang string) string {
	words := progressWords.In(lang)
	text := fmt.Sprintf(" ... %.1fs", s.Elapsed.Seconds())
	switch {
	case errors.Is(s.Err, context.Canceled):
		return text + words.interrupted
	case s.Err != nil && s.Result == nil:
		return text + words.failed
	case s.Result != nil && s.Result.Finding != "":
		return text + " " + words.findings[s.Result.Finding]
	}
	return text
}

// courseLength is how many rates the sparkline of a run shows, of courseStep each.
const (
	courseLength = 16
	courseStep   = 200 * time.Millisecond
)

// course is how many requests were accepted per second of late.
type course struct {
	rates    []float64
	elapsed  time.Duration
	accepted int64
}

// take adds the rate since the last report, if that is long enough ago.
func (c *course) take(p loadtest.Progress) {
	d := p.Elapsed - c.elapsed
	if p.Phase != loadtest.Driving || d < courseStep/2 {
		return
	}
	c.rates = append(c.rates, float64(p.Accepted-c.accepted)/d.Seconds())
	c.rates = c.rates[max(0, len(c.rates)-courseLength):]
	c.elapsed, c.accepted = p.Elapsed, p.Accepted
}

// text draws the rates, and writes the last; "" while there are none.
func (c *course) text(lang string) string {
	if len(c.rates) == 0 {
		return ""
	}
	return fmt.Sprintf(progressWords.In(lang).rate, layout.Spark(c.rates), c.rates[len(c.rates)-1])
}

// runningText words how far a run is; course is its course.
func runningText(p loadtest.Progress, course, lang string) string {
	words := progressWords.In(lang)
	if p.Phase != loadtest.Driving {
		return " " + words.phases[p.Phase]
	}
	text := fmt.Sprintf(" %3.0f%%", 100*p.Done) + course + fmt.Sprintf(words.driving, p.Accepted, p.Refused)
	if p.Failed > 0 {
		text += fmt.Sprintf(words.drivingFailed, p.Failed)
	}
	if p.Dropped > 0 {
		text += fmt.Sprintf(words.drivingDrops, p.Dropped)
	}
	return text
}
