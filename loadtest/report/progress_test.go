package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"lastitem/loadtest"
	"lastitem/loadtest/compare"
	"lastitem/testkit"
)

func TestProgressOnATerminal(t *testing.T) {
	var b bytes.Buffer
	p := &Progress{w: &b, lang: "en", terminal: true, lines: true, columns: 40}
	step := compare.Step{Index: 3, Total: 9, Mode: "mutex"}
	running := step
	running.Running, running.Elapsed = &loadtest.Progress{Phase: loadtest.Driving, Done: 0.5, Accepted: 123456,
		Refused: 98765}, time.Second
	p.step(step)
	p.last = time.Time{}
	p.step(running)
	p.step(running) // too soon
	step.Done, step.Elapsed = true, 1230*time.Millisecond
	p.step(step)
	const rewrite = "\r\x1b[K"
	want := rewrite + "[3/9] mutex" + rewrite + "[3/9] mutex 1.0s  50%  accepted 123456," + rewrite +
		"[3/9] mutex ... 1.2s\n"
	testkit.Is(t, b.String(), want, "progress")
}

// The line of a run has the course of its acceptances, newest last; the next run begins a new one.
func TestProgressHasACourse(t *testing.T) {
	var b bytes.Buffer
	p := &Progress{w: &b, lang: "en", terminal: true, columns: 200}
	at := func(elapsed time.Duration, accepted int64) string {
		b.Reset()
		p.last = time.Time{}
		p.step(compare.Step{Index: 1, Total: 1, Mode: "mutex", Elapsed: elapsed, Running: &loadtest.Progress{
			Phase: loadtest.Driving, Elapsed: elapsed, Accepted: accepted, Done: 0.5,
		}})
		return b.String()
	}
	at(200*time.Millisecond, 100)
	at(400*time.Millisecond, 500)
	if got, want := at(600*time.Millisecond, 500),
		"mutex 0.6s  50%  ▃█· 0/s  accepted 500, refused 0"; !strings.Contains(got, want) {
		t.Errorf("progress = %q, want %q", got, want)
	}
	for i := range 40 {
		at(time.Duration(i+4)*200*time.Millisecond, int64(500+100*i))
	}
	if got, want := at(10*time.Second, 4500), "  "+strings.Repeat("█", courseLength-1); !strings.Contains(got, want) ||
		strings.Contains(got, want+"█") && strings.Count(got, "█") > courseLength {
		t.Errorf("progress = %q, want the last %d rates", got, courseLength)
	}
	p.step(compare.Step{Index: 2, Total: 2, Mode: "next"})
	if got := at(200*time.Millisecond, 10); !strings.Contains(got, "  █ 50/s") {
		t.Errorf("progress of the next run = %q, want a course of its own", got)
	}
	if got := runningText(loadtest.Progress{Phase: loadtest.Resetting}, "", "zh"); got != " 重置库存" {
		t.Errorf("progress in Chinese = %q, want the phase in Chinese", got)
	}
}

// Without a terminal there is a line per run, and one now and then while it takes long, or with lines unset nothing; a
// nil progress is quiet.
func TestProgressElsewhere(t *testing.T) {
	var lines, none bytes.Buffer
	for _, p := range []*Progress{NewProgress(&lines, "en", false, true), NewProgress(&none, "en", false, false),
		NewProgress(&none, "en", true, true)} {
		p.step(compare.Step{Index: 1, Total: 1, Mode: "mutex"})
		running := compare.Step{Index: 1, Total: 1, Mode: "mutex", Running: &loadtest.Progress{Phase: loadtest.Settling},
			Elapsed: 7 * time.Second}
		p.step(running) // too soon
		if p != nil {
			p.last = time.Now().Add(-slowTick)
		}
		p.step(running)
		p.step(compare.Step{Index: 1, Total: 1, Mode: "mutex", Repetition: 2, Done: true, Err: errors.New("no")})
		p.clear()
	}
	testkit.Is(t, lines.String(), "[1/1] mutex 7.0s settle\n[1/1] mutex (repetition 2) ... 0.0s failed\n", "progress")
	if none.Len() > 0 {
		t.Errorf("quiet progress = %q, want nothing", none.String())
	}
}
