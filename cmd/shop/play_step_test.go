package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lastitem/internal/localstack"
	"lastitem/internal/testenv"
)

// testPlayStep holds the page Step: by its API every lesson, in the browser the first.
func testPlayStep(t *testing.T, shop string) {
	testenv.Installed(t, localstack.Redis, localstack.MySQL)
	p := startPlay(t, shop)
	t.Run("lessons", func(t *testing.T) { testLessons(t, p) })
	t.Run("browser", func(t *testing.T) { testStepBrowser(t, p) })
}

// console calls the console's API.
func (p playing) console(t *testing.T, method, path, body string, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.base+"/console/api/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s %s %s = %s %s, %v", method, path, body, res.Status, text, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// stepState is what the tests read of a schedule's end.
type stepState struct {
	Lesson, Moves string
	Won           int
	Clients       []struct{ Can []string }
}

// step plays a schedule by the console's API.
func (p playing) step(t *testing.T, lesson, moves string) (end stepState) {
	t.Helper()
	p.console(t, "POST", "step", fmt.Sprintf(`{"lesson":%q,"moves":%q}`, lesson, moves), &end)
	return end
}

// onward makes a client's move, and all that it can make after that, up to its answer.
func (p playing) onward(t *testing.T, at stepState, client int, verb string) stepState {
	t.Helper()
	for len(at.Moves) < 70 && slices.Contains(at.Clients[client].Can, verb) {
		at, verb = p.step(t, at.Lesson, at.Moves+"ab"[client:client+1]+verb), ""
	}
	return at
}

// testLessons plays the way of every lesson. Against the two that have none it loses the answer to each of A's commands, or stops A there until
// its locks have expired and B has bought, and then A goes on and both ask again.
func testLessons(t *testing.T, p playing) {
	var all struct {
		Lessons []struct{ Name, Way string }
	}
	p.console(t, "GET", "lessons", "", &all)
	for _, l := range all.Lessons {
		if l.Way != "" {
			end := p.step(t, l.Name, l.Way)
			for try := 1; try < 5 && end.Moves != l.Way; try++ { // on a busy machine a client may give up a command that waits for its move
				p.step(t, l.Name, "")
				end = p.step(t, l.Name, l.Way)
			}
			if end.Won < 0 || end.Moves != l.Way {
				t.Errorf("%s, %s: won after %d, played %s; want it won", l.Name, l.Way, end.Won, end.Moves)
			}
			continue
		}
		for k := range 7 {
			for _, harm := range []string{"al", "asx"} {
				at := p.onward(t, p.step(t, l.Name, strings.Repeat("a", k)+harm), 1, "")
				for _, next := range []struct {
					client int
					verb   string
				}{{0, "c"}, {0, ""}, {0, "r"}, {1, ""}, {1, "r"}} {
					at = p.onward(t, at, next.client, next.verb)
				}
				if at.Won >= 0 || len(at.Moves) < 15 {
					t.Errorf("%s is won after %d of %s, with %+v, want that it cannot be won", l.Name, at.Won, at.Moves, at.Clients)
				}
			}
		}
	}
	if len(all.Lessons) != 10 {
		t.Errorf("%d lessons, want 10", len(all.Lessons))
	}
}

// moved waits until so many moves have been played.
func (b *tab) moved(n int) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`document.querySelectorAll('.move').length === %d && document.querySelector('.board').getAttribute('aria-busy') === 'false'`, n))
}

// testStepBrowser sells one item twice, in six steps: by the buttons, by the keys, and by a link.
func testStepBrowser(t *testing.T, p playing) {
	b := openTab(t, p.base)
	b.look(1440, "light")
	b.do("open", chromedp.Navigate(strings.Replace(p.address, "#", "?lang=en#", 1)))
	b.wait(`!!document.querySelector('.top nav a')`)
	eval[string](b, `location.hash = '#/step'`)
	b.wait(`document.querySelectorAll('.client').length === 2 && document.querySelectorAll('.lessons a').length === 10`)
	for i, client := range "abaabb" {
		eval[bool](b, fmt.Sprintf(`document.querySelector('[data-does=%c]').click() ?? true`, client))
		b.moved(i + 1)
		if i == 2 {
			b.shot("step-middle-en-light")
		}
	}
	b.wait(`document.querySelector('.verdict.is-good .verdict-line')?.textContent.includes('6')`)
	if got := eval[string](b, `[...document.querySelectorAll('.is-changed td:last-child code')].map((c) => c.textContent).join(' ')`); strings.Count(got, "{order ") != 2 {
		t.Errorf("the last move has changed %q, want the list of orders, with two", got)
	}
	if kept := eval[string](b, `localStorage.getItem('lastitem.lessons')`); kept != `{"sell-twice":"won"}` {
		t.Errorf("the browser keeps %s, want the lesson that was won", kept)
	}
	b.shot("step-won-en-light")
	testStepThought(t, b)
	testStepKeys(t, b)
	testStepFails(b)
	testStepLink(t, b)
	testStepGivenUp(t, b)
	testPlayAxe(t, b, axeSteps)
	b.clean()
}

// testStepThought thinks before each move for longer than a lock waits for an answer: time does not pass.
func testStepThought(t *testing.T, b *tab) {
	t.Helper()
	eval[string](b, `location.hash = '#/step/lock-out'`)
	b.wait(`document.querySelector('.lessons [aria-current] code')?.textContent === 'setnx' && document.querySelectorAll('.client.phase-held').length === 2`)
	for i, does := range []string{"a", "ak"} {
		time.Sleep(2500 * time.Millisecond)
		eval[bool](b, `document.querySelector('[data-does=`+does+`]').click() ?? true`)
		b.moved(i + 1)
	}
	if got := eval[string](b, `document.querySelector('.client.is-a .next').textContent`); !strings.HasPrefix(got, "Its process is gone.") {
		t.Errorf("after a thought, A: %q, want that it was killed with the lock", got)
	}
	eval[string](b, `location.hash = '#/step/sell-twice/abaabb'`)
	b.moved(6)
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

// testStepFails makes a move that the server does not play: the page says so, beside the moves before it. Without a session the page asks for the
// token, whatever view is opened, and shows the error of a view that cannot be read.
func testStepFails(b *tab) {
	b.t.Helper()
	eval[bool](b, `(window.kept = window.fetch, window.fetch = () => Promise.resolve(Response.json({ error: 'no server' }, { status: 502 })), document.querySelector('[data-does=b]').click(), true)`)
	b.wait(`document.querySelector('.message')?.textContent.includes('no server') === true`)
	b.moved(3)
	eval[string](b, `location.hash = '#/matrix'`)
	b.wait(`document.querySelector('main .message')?.textContent.includes('no server') === true`)
	eval[string](b, `(window.fetch = () => Promise.resolve(new Response('{}', { status: 401 })), location.hash = '#/read')`)
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
		b.wait(`document.querySelector('.lessons [aria-current] code')?.textContent === '` + lesson + `' && document.querySelectorAll('.client').length === 2`)
		b.moved(0)
		if !eval[bool](b, `document.querySelector('[data-does=claim]').disabled`) {
			t.Errorf("%s: one may give up without having tried", lesson)
		}
		eval[string](b, `location.hash = '#/step/`+lesson+`/ak'`)
		b.moved(1)
		eval[bool](b, `document.querySelector('[data-does=claim]').click() ?? true`)
		b.wait(`document.querySelector('.verdict-line') !== null`)
		want := map[string]string{"canWin": "It can be done.", "cannotWin": "Right: it cannot be done."}[kind]
		if got := eval[string](b, `document.querySelector('.verdict-line').textContent`); got != want {
			t.Errorf("%s: %q, want %q", lesson, got, want)
		}
	}
	b.shot("step-lease-seq-en-light")
}

// testNoSteps opens the page Step of a console without proxies of its own, which says so.
func testNoSteps(t *testing.T, base string) {
	b := openTab(t, base)
	b.look(390, "dark")
	b.do("open", chromedp.Navigate(base+"/console/?lang=en#token=t0ken"))
	b.wait(`!!document.querySelector('.top nav a')`)
	eval[string](b, `location.hash = '#/step'`)
	b.wait(`!!document.querySelector('.step-empty')?.textContent.startsWith('You are the scheduler') && document.documentElement.scrollWidth <= 390`)
	if text := eval[string](b, `document.querySelector('.step-empty').textContent`); !strings.Contains(text, "Local stack only") {
		t.Errorf("the page says %q, want that it needs the local stack", text)
	}
	b.shot("step-elsewhere-en-dark-390")
	b.clean()
}
