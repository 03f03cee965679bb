package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"lastitem/faultlab"
	"lastitem/internal/audit"
	"lastitem/internal/columns"
	"lastitem/internal/stock"
	"lastitem/loadtest"
	"lastitem/loadtest/report"
	"lastitem/loadtest/words"
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
func styleFor(w io.Writer, lang string, noColor bool) report.Style {
	is, columns := terminal(w)
	color := is && !noColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return report.Style{Lang: lang, Width: columns, Color: color}
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
	lang     string
	terminal bool
	lines    bool
	columns  int
	last     time.Time
	course   course
}

// newProgress returns the progress for w; nil, which is told nothing, where quiet.
func newProgress(w io.Writer, lang string, quiet, lines bool) *progressLine {
	if quiet {
		return nil
	}
	is, columns := terminal(w)
	return &progressLine{w: w, lang: lang, terminal: is && os.Getenv("TERM") != "dumb", lines: lines, columns: columns}
}

// step is the callback of loadtest.Compare.
func (p *progressLine) step(s loadtest.Step) {
	if p == nil || (!p.terminal && !p.lines) {
		return
	}
	text := fmt.Sprintf("[%d/%d] %s", s.Index, s.Total, s.Mode)
	if s.Repetition > 1 {
		text += fmt.Sprintf(progressWords[p.lang].repetition, s.Repetition)
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
func (p *progressLine) write(text string, stay bool) {
	if !p.terminal {
		fmt.Fprintln(p.w, text)
		return
	}
	end := ""
	if stay {
		end = "\n"
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s%s", fitted(text, p.columns), end)
}

// fitted cuts text so that it does not fill a line of a terminal: the terminal would begin another. wide is 0 where nobody knows the width.
func fitted(text string, wide int) string {
	runes := []rune(text)
	for wide > 1 && columns.Width(string(runes)) >= wide {
		runes = runes[:len(runes)-1]
	}
	return string(runes)
}

// clear removes the line that is being rewritten, so that the result begins on an empty one.
func (p *progressLine) clear() {
	if p != nil && p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// progressWords are the words of the progress, by language.
var progressWords = map[string]struct {
	repetition, interrupted, failed string
	rate, driving                   string
	drivingFailed, drivingDrops     string
	phases                          map[loadtest.Phase]string
	findings                        map[audit.Finding]string
}{
	"en": {
		repetition: " (repetition %d)", interrupted: " interrupted", failed: " failed",
		rate: "  %s %.0f/s", driving: "  accepted %d, refused %d", drivingFailed: ", failed %d", drivingDrops: ", dropped %d",
	},
	"zh": {
		repetition: "（第 %d 轮）", interrupted: " 已中断", failed: " 失败",
		rate: "  %s %.0f/秒", driving: "  成功 %d，拒绝 %d", drivingFailed: "，失败 %d", drivingDrops: "，丢弃 %d",
		phases: map[loadtest.Phase]string{
			loadtest.Resetting: "重置库存", loadtest.Warming: "预热", loadtest.Settling: "等待结果确定", loadtest.Judging: "判定",
		},
		findings: map[audit.Finding]string{
			audit.Confirmed: "符合声明", audit.Contradicted: "与声明矛盾", audit.Undecided: "未定", audit.Unclaimed: "无声明",
		},
	},
}

// doneText words how a run ended.
func doneText(s loadtest.Step, lang string) string {
	words := progressWords[lang]
	text := fmt.Sprintf(" ... %.1fs", s.Elapsed.Seconds())
	switch {
	case errors.Is(s.Err, context.Canceled):
		return text + words.interrupted
	case s.Err != nil && s.Result == nil:
		return text + words.failed
	case s.Result != nil && s.Result.Finding != "":
		return text + " " + cmp.Or(words.findings[s.Result.Finding], string(s.Result.Finding))
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
	return fmt.Sprintf(progressWords[lang].rate, columns.Spark(c.rates), c.rates[len(c.rates)-1])
}

// runningText words how far a run is; course is its course.
func runningText(p loadtest.Progress, course, lang string) string {
	words := progressWords[lang]
	if p.Phase != loadtest.Driving {
		return " " + cmp.Or(words.phases[p.Phase], string(p.Phase))
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
	shown string    // what is on the terminal's last line
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

// addLang declares --lang. Its default is the language of the user's locale, as for other programs with translated messages.
func addLang(set *pflag.FlagSet, lang *string) {
	set.StringVar(lang, "lang", localeLanguage(os.Getenv), "language of the text: en or zh (default: by LC_ALL, LC_MESSAGES or LANG)")
	set.Lookup("lang").DefValue = "" // what it is here would differ from one machine's help to another's
}

// localeLanguage is the language of the locale that the environment names, if reports are written in it, else English.
func localeLanguage(getenv func(string) string) string {
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		if locale := getenv(name); locale != "" {
			if strings.HasPrefix(strings.ToLower(locale), "zh") {
				return "zh"
			}
			return "en"
		}
	}
	return "en"
}

// checkLang refuses a language that no report is written in.
func checkLang(lang string) error {
	if !slices.Contains(words.Languages, lang) {
		return usage("--lang %q: want %s", lang, orList(words.Languages))
	}
	return nil
}

// in returns the text in the language lang ("zh", else English).
func in(t stock.Text, lang string) string {
	if lang == "zh" {
		return t.Zh
	}
	return t.En
}
