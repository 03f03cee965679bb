package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

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
	testStepKeys(t, b)
	testStepFails(b)
	testStepLink(t, b)
	testStepGivenUp(t, b)
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
