package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lastitem/console"
	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// playing is a 'shop play' of the tests.
type playing struct {
	address string // of the page, with the token after '#'
	base    string // http://host:port
	token   string

	replicas int // that a run uses; 0 = 3
}

// startPlay runs 'shop play' on embedded backends, and waits until it has printed the address of the page.
func startPlay(t *testing.T, shop string) playing {
	t.Helper()
	address := startUntil(t, "console: ", shop, "play", "--port", "0", "--backend", "embedded", "--no-open")
	u, err := url.Parse(address)
	if err != nil || u.Fragment != "token=t0ken" {
		t.Fatalf("address %s, want one with the token after '#'", address)
	}
	return playing{address: address, base: "http://" + u.Host, token: "t0ken"}
}

// startUntil starts a command with the token t0ken, and waits until it prints a line that begins with prefix; it
// returns the rest of that line. The command is interrupted at the end of the test, and must then succeed.
func startUntil(t *testing.T, prefix, shop string, args ...string) string {
	t.Helper()
	cmd := exec.Command(shop, args...)
	cmd.Env = append(os.Environ(), "SHOP_ADMIN_TOKEN=t0ken")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("shop %s after Ctrl-C: %v\n%s", args[0], err, &said)
		}
		if says := strings.Contains(said.String(), "ending the stack"); says != (args[0] == "play" || args[0] == "up") {
			t.Errorf("shop %s after Ctrl-C says %q", args[0], &said)
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return rest
		}
	}
	t.Fatalf("shop %s ended without a line that begins with %q\n%s", args[0], prefix, &said)
	return ""
}

// snapshot is what the tests read of the console's.
type snapshot struct {
	Run *struct {
		State   string
		Spec    console.Spec
		Results []struct {
			Result struct{ Verdicts []judgeReport }
		}
	}
	Frame struct {
		Lanes              []string
		Sections, Overlaps int64
		Pairs              []console.Pair
		LeftOut            int64 `json:"left_out"`
	}
}

// judgeReport is what the tests read of the judge's report.
type judgeReport struct {
	Verdict  string
	Oversold int64
}

// run makes a run of one mode by the console's API, and returns what it told in the end.
func (p playing) run(t *testing.T, mode string) (end snapshot) {
	t.Helper()
	p.start(t, mode, 24, 120)
	for deadline := time.Now().Add(3 * time.Minute); ; {
		if time.Now().After(deadline) {
			t.Fatalf("the run of %s has not ended after 3 minutes", mode)
		}
		res := p.call(t, t.Context(), "GET", "events", "")
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				end = snapshot{}
				testkit.Must(t, json.Unmarshal([]byte(data), &end))
				break // the snapshot is the first
			}
		}
		res.Body.Close()
		if end.Run != nil && end.Run.State != console.Running && end.Run.Spec.Modes[0] == mode {
			return end
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestPlay holds 'shop play': its runs by the console's API, and the page in a browser. TestStepper of faultlab/stepper
// has the lessons.
func TestPlay(t *testing.T) {
	t.Parallel()
	p := startPlay(t, program(t))
	t.Run("runs", func(t *testing.T) { testRuns(t, p) })
	t.Run("browser", func(t *testing.T) {
		t.Parallel()
		testPlayBrowser(t, p)
	})
	t.Run("step", func(t *testing.T) {
		t.Parallel()
		testenv.Installed(t, stack.Redis, stack.MySQL)
		testStepBrowser(t, p)
	})
}

// testRuns makes runs on real replicas: the numbers that the console counts in their streams are those that the judge
// finds.
func testRuns(t *testing.T, p playing) {
	for mode, exact := range map[string]bool{"unsafe": false, "lease-seq": true, "queue": true, "lua-lock": true} {
		end := p.run(t, mode)
		verdict := judged(t, end)
		if got := verdict.Verdict == "EXACT"; got != exact || (verdict.Oversold > 0) == exact {
			t.Errorf("%s: verdict %+v, want exact %t", mode, verdict, exact)
		}
		if f := end.Frame; (f.Overlaps > 0) == exact || (len(f.Pairs) > 0) == exact || f.LeftOut != 0 {
			t.Errorf("%s: %d of %d sections overlap, %d pairs, %d left out; want overlaps only where it oversells", mode,
				f.Overlaps, f.Sections, len(f.Pairs), f.LeftOut)
		}
		if f := end.Frame; (f.Sections > 0) == (mode == "queue") || len(f.Lanes) != 3 {
			t.Errorf("%s: %d sections on lanes %v", mode, f.Sections, f.Lanes)
		}
	}
}

// judged returns the judge's report of a run.
func judged(t *testing.T, s snapshot) judgeReport {
	t.Helper()
	if s.Run.State != console.Ended || len(s.Run.Results) != 1 || len(s.Run.Results[0].Result.Verdicts) != 1 {
		t.Fatalf("run %+v, want one result with one verdict", s.Run)
	}
	return s.Run.Results[0].Result.Verdicts[0]
}

// moved waits until so many moves have been played.
func (b *tab) moved(n int) { b.t.Helper(); b.wait(afterMoves(n)) }

func afterMoves(n int) string {
	return fmt.Sprintf(`document.querySelectorAll('.move').length === %d && `+
		`document.querySelector('.board').getAttribute('aria-busy') === 'false'`, n)
}

// led goes to a schedule of a lesson. On a busy machine a server may take so long for a command that the schedule ends
// there: then it is played again from the start.
func (b *tab) led(lesson string, moves []string) {
	b.t.Helper()
	to, done := lesson+strings.Join(moves, ""), fmt.Sprintf(`document.querySelector('.lessons [aria-current]')`+
		`?.getAttribute('href') + '/' === %q && %s`, lesson, afterMoves(len(moves)))
	for range 5 {
		eval[string](b, `location.hash = '`+to+`'`)
		for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if eval[bool](b, done) {
				return
			}
		}
		eval[string](b, `location.hash = '`+lesson+`'`)
		b.moved(0)
	}
	b.wait(done) // says what the page shows
}

// testStepBrowser sells one item twice, in six steps: by the buttons, by the keys, and by a link.
func testStepBrowser(t *testing.T, p playing) {
	b := openTab(t, p.base)
	b.look(1440, "light")
	b.do("open", chromedp.Navigate(strings.Replace(p.address, "#", "?lang=en#", 1)))
	b.wait(`!!document.querySelector('.top nav a')`)
	eval[string](b, `location.hash = '#/step'`)
	b.wait(`document.querySelectorAll('.client').length === 2 && document.querySelectorAll('.lessons a').length === 16`)
	for i, client := range "abaabb" {
		eval[bool](b, fmt.Sprintf(`document.querySelector('[data-does=%c]').click() ?? true`, client))
		b.moved(i + 1)
		if i == 2 { // A has read and written, B has read
			b.shot("step-middle-en-light")
		}
	}
	b.wait(`document.querySelector('.verdict.is-good .verdict-line')?.textContent.includes('6')`)
	if got := eval[string](b, `[...document.querySelectorAll('.is-changed td:last-child code')].map((c) => `+
		`c.textContent).join(' ')`); strings.Count(got, "{order ") != 2 {
		t.Errorf("the last move has changed %q, want the list of orders, with two", got)
	}
	if kept := eval[string](b, `localStorage.getItem('lastitem.lessons')`); kept != `{"sell-twice":"won"}` {
		t.Errorf("the browser keeps %s, want the lesson that was won", kept)
	}
	b.shot("step-won-en-light")
	testStepKeys(t, b)
	testStepFails(b)
	testStepLink(t, b)
	testStepGivenUp(t, b)
	testStepHolds(t, b)
	testStepMarks(t, b)
	testPlayAxe(t, b, axeSteps)
	b.clean()
}

// testStepKeys plays with the keyboard alone, and takes moves back.
func testStepKeys(t *testing.T, b *tab) {
	t.Helper()
	eval[bool](b, `document.querySelector('[data-does=restart]').click() ?? true`)
	b.moved(0)
	eval[bool](b, `document.querySelector('.board').focus() ?? true`)
	for i, key := range []string{"a", "b", "a"} {
		b.do("key", chromedp.KeyEvent(key))
		b.moved(i + 1)
	}
	b.do("undo", chromedp.KeyEvent("u"))
	b.moved(2)
	b.do("backspace", chromedp.KeyEvent(kb.Backspace))
	b.moved(1)
	eval[bool](b, `history.back() ?? true`)
	b.moved(2)
	if eval[bool](b, `!!document.querySelector('[data-does=al]')`) {
		t.Error("the first lesson shows a button that it does not need")
	}
	eval[bool](b, `document.querySelector('[data-does=every]').click() ?? true`)
	eval[bool](b, `document.querySelector('[data-does=al]').focus() ?? true`)
	b.do("enter", chromedp.KeyEvent("\r"))
	b.moved(3)
	if at := eval[string](b, `location.hash`); at != "#/step/sell-twice/abal" {
		t.Errorf("the address is %s, want the schedule in it", at)
	}
	if focus := eval[bool](b, `document.querySelector('.board').contains(document.activeElement)`); !focus {
		t.Error("the focus has left the board")
	}
}

// testStepFails makes a move that the server does not play: the page says so, beside the moves before it. Without a
// session the page asks for the token, whatever view is opened, and shows the error of a view that cannot be read.
func testStepFails(b *tab) {
	b.t.Helper()
	eval[bool](b, `(window.kept = window.fetch, window.fetch = () => Promise.resolve(Response.json({ error: 'no server' `+
		`}, { status: 502 })), document.querySelector('[data-does=b]').click(), true)`)
	b.wait(`document.querySelector('.message')?.textContent.includes('no server') === true`)
	b.moved(3)
	eval[string](b, `location.hash = '#/matrix'`)
	b.wait(`document.querySelector('main .message')?.textContent.includes('no server') === true`)
	eval[string](b, `(window.fetch = () => Promise.resolve(new Response('{}', { status: 401 })), location.hash = `+
		`'#/read')`)
	b.wait(`!!document.querySelector('#token')`)
	eval[bool](b, `(window.fetch = window.kept, true)`)
}

// testStepLink opens schedules by their addresses, in another language, dark and narrow.
func testStepLink(t *testing.T, b *tab) {
	t.Helper()
	eval[bool](b, `document.getElementById('lang').click() ?? true`)
	b.look(1440, "dark")
	eval[string](b, `location.hash = '#/step/before-commit/aaaaaabbbb'`)
	b.moved(10)
	if got := eval[string](b, `document.querySelector('.client.is-b .phase').textContent`); got != "等待应答" {
		t.Errorf("B: %q, want that it waits for the row", got)
	}
	b.shot("step-waits-zh-dark")
	b.look(390, "light")
	b.wait(`document.documentElement.scrollWidth <= 390`)
	b.shot("step-waits-zh-390")
	b.look(390, "dark")
	eval[string](b, `location.hash = '#/step/fencing/aaxbbaaaabbbb'`)
	b.moved(13)
	b.wait(`document.querySelector('.verdict.is-good') !== null && document.documentElement.scrollWidth <= 390`)
	b.shot("step-fencing-zh-dark-390")
	b.look(1440, "light")
	b.shot("step-fencing-zh-light")
	eval[string](b, `location.hash = '#/step/foreign-lock/aaaaxbaaab'`) // A has its answer after its fifth command
	b.wait(`location.hash === '#/step/foreign-lock/aaaaxba'`)
	b.moved(7)
	b.shot("step-foreign-zh-light")
	eval[bool](b, `document.getElementById('lang').click() ?? true`)
}

// testStepGivenUp says that a lesson cannot be won, where it can, and where it cannot.
func testStepGivenUp(t *testing.T, b *tab) {
	t.Helper()
	for lesson, kind := range map[string]string{"watchdog": "canWin", "lease-seq": "cannotWin"} {
		eval[string](b, `location.hash = '#/step/`+lesson+`'`)
		b.wait(`document.querySelector('.lessons [aria-current] code')?.textContent === '` + lesson +
			`' && document.querySelectorAll('.client').length === 2`)
		b.moved(0)
		if !eval[bool](b, `document.querySelector('[data-does=claim]').disabled`) {
			t.Errorf("%s: one may give up without having tried", lesson)
		}
		eval[string](b, `location.hash = '#/step/`+lesson+`/ak'`)
		b.moved(1)
		eval[bool](b, `document.querySelector('[data-does=claim]').click() ?? true`)
		b.wait(`document.querySelector('.verdict-line') !== null`)
		want := map[string]string{"canWin": "It can be done.", "cannotWin": "Right: it cannot be done."}[kind]
		testkit.Is(t, eval[string](b, `document.querySelector('.verdict-line').textContent`), want, "%s", lesson)
	}
	b.shot("step-lease-seq-en-light")
}

// testStepHolds solves the lessons about a reservation, button by button.
func testStepHolds(t *testing.T, b *tab) {
	t.Helper()
	for _, lesson := range []struct{ name, way, wants, told string }{
		{"cancelled-twice", "aaaabbbbba", "cancels · cancels · ", "cancelled cancelled"},
		{"paid-too-late", "aaaaxbbbbba", "pays · reserves · ", "paid reserved"},
	} {
		eval[string](b, `location.hash = '#/step/`+lesson.name+`'`)
		b.wait(`document.querySelector('.aim:not(.is-reached)') !== null && location.hash.endsWith('` + lesson.name + `')`)
		b.moved(0)
		if got := eval[string](b, `[...document.querySelectorAll('.client .phase')].map((p) => `+
			`p.firstChild.textContent).join('')`); got != lesson.wants {
			t.Errorf("%s: the clients are said to be %q, want %q", lesson.name, got, lesson.wants)
		}
		for i, move := range lesson.way {
			eval[bool](b, fmt.Sprintf(`document.querySelector('[data-does=%c]').click() ?? true`, move))
			b.moved(i + 1)
		}
		b.wait(`document.querySelector('.verdict.is-good .verdict-line') !== null`)
		got := eval[string](b, `[...document.querySelectorAll('.client .answer')].map((a) => a.textContent).join(' ')`)
		testkit.Is(t, got, lesson.told, "%s: the clients were told", lesson.name)
		if !eval[bool](b, `document.querySelector('[data-does=x]').disabled`) {
			t.Errorf("%s: the deadline of a reservation that has ended may pass", lesson.name)
		}
		b.shot("step-" + lesson.name + "-en-light")
	}
}

// testStepMarks plays a way through each lesson, and looks after each move at which line of the mode's steps A and B
// are (0 = at none), in both languages.
func testStepMarks(t *testing.T, b *tab) {
	t.Helper()
	for _, lesson := range []struct{ name, way, want string }{
		{"sell-twice", "a b a a b b", "11 31 33 43 03 04 00"},
		{"lock-out", "a ak b", "11 21 01 00"},
		{"foreign-lock", "a a a a x b a", "11 21 21 21 31 31 32 02"},
		{"asked-first", "a a a a a x b a", "11 21 21 21 31 41 41 42 02"},
		{"charge-twice", "a a a al ar a a a a", "11 11 31 31 01 11 11 31 31 01"},
		{"before-commit", "a a a a a a b b b b a b b b", "11 21 31 31 31 41 51 52 53 53 53 03 04 05 00"},
		{"watchdog", "a a as x b b b b ac a a", "11 41 41 41 41 44 44 44 45 45 45 55"},
		{"fencing", "a a x b b a a a a b b b b", "11 21 31 31 32 33 33 53 53 63 63 65 65 66"},
		{"perfect-lock", "x a a", "11 11 41 41"},
		{"lease-seq", "a a", "11 21 31"}, // later B polls, at a time of its own
		{"idempotent", "a a a a a a a", "22 32 32 52 52 62 62 62"},
		{"cancelled-twice", "a a a a b b b b b a", "22 22 22 22 42 42 42 42 44 40 00"},
		{"paid-too-late", "a a a a x b b b b b a", "21 21 21 21 41 41 41 41 41 41 40 00"},
		{"orders-in-flight", "a a a a a a x b", "31 41 41 41 41 51 31 31 30"},
		{"bought-twice", "a a a a a ak x b b b b", "33 43 43 43 43 53 03 03 03 03 05 03"},
	} {
		moves, at := strings.Fields(lesson.way), "#/step/"+lesson.name+"/"
		var got [2][]string
		for i := range len(moves) + 1 {
			b.led(at, moves[:i])
			for j := range 2 {
				eval[bool](b, `document.getElementById('lang').click() ?? true`)
				b.moved(i)
				b.wait(`document.querySelectorAll('.code-steps li').length > 0`)
				got[j] = append(got[j], eval[string](b, `['is-a', 'is-b'].map((name) => 1 + [...document.querySelectorAll(`+
					`'.code-steps > ol > li')].findIndex((li) => li.querySelector('.lane-name.' + name))).join('')`))
			}
		}
		for _, marks := range got {
			testkit.Is(t, strings.Join(marks, " "), lesson.want, "%s: A and B are at the lines", lesson.name)
		}
	}
}

// testNoSteps opens the page Step of a console without proxies of its own, which says so.
func testNoSteps(t *testing.T, base string) {
	b := openTab(t, base)
	b.look(390, "dark")
	b.do("open", chromedp.Navigate(base+"/console/?lang=en#token=t0ken"))
	b.wait(`!!document.querySelector('.top nav a')`)
	eval[string](b, `location.hash = '#/step'`)
	b.wait(`!!document.querySelector('.step-empty')?.textContent.startsWith('You are the scheduler') && ` +
		`document.documentElement.scrollWidth <= 390`)
	if text := eval[string](b, `document.querySelector('.step-empty').textContent`); !strings.Contains(text,
		"Local stack only") {
		t.Errorf("the page says %q, want that it needs the local stack", text)
	}
	b.shot("step-elsewhere-en-dark-390")
	b.clean()
}
