package main

import (
	"testing"
)

// testPlayRead opens the page of a mode from its run, follows it back to the button, and searches all pages.
func testPlayRead(t *testing.T, b *tab) {
	t.Helper()
	b.look(1440, "light")
	eval[string](b, `location.hash = '#/read/modes/fencing-strict'`)
	b.wait(`!!document.querySelector('.prose h1')?.textContent.startsWith('fencing-strict') && document.querySelectorAll('.pages a[aria-current]').length === 1`)
	if got := eval[string](b, `document.querySelector('.page-tools a').getAttribute('href')`); got != "#/run/fencing-strict" {
		t.Errorf("beside the page is a link to %s, want the run of the mode", got)
	}
	if got := eval[string](b, `document.querySelector('.prose').lang`); got != "zh-CN" {
		t.Errorf("the page is in %s, want Chinese", got)
	}
	b.shot("read-zh-light")
	eval[bool](b, `(() => {
		const search = document.getElementById('r-search');
		search.value = '看门狗';
		search.dispatchEvent(new Event('input'));
		return true;
	})()`)
	b.wait(`document.querySelectorAll('.hits mark').length > 3 && [...document.querySelectorAll('.hits mark')].every((m) => m.textContent === '看门狗')`)
	b.shot("search-zh-light")
	eval[bool](b, `document.querySelector('.hits a').click() ?? true`)
	b.wait(`document.querySelector('.prose') !== null && document.getElementById('r-search').value === ''`)
	b.look(390, "dark")
	b.wait(`document.documentElement.scrollWidth <= 390`)
	b.shot("read-zh-dark-390")
	eval[string](b, `location.hash = '#/read/locks'`)
	b.wait(`!!document.querySelector('.prose h1') && document.querySelector('.pages a[aria-current]')?.getAttribute('href') === '#/read/locks' && document.documentElement.scrollWidth <= 390`)
	eval[string](b, `location.hash = '#/read/choose'`)
	b.wait(`document.querySelector('.pages a[aria-current]')?.getAttribute('href') === '#/read/choose' && !!document.querySelector('.prose td a code')`)
	for _, width := range []int64{1280, 390} {
		b.look(width, "light")
		if got := eval[string](b, `[...document.querySelectorAll('.prose td a code')].filter((c) => c.getClientRects().length > 1).map((c) => c.textContent).join(' ')`); got != "" {
			t.Errorf("at %d px, names of modes are broken over several lines: %s", width, got)
		}
		if got := eval[string](b, `[...document.querySelectorAll('.prose td')].filter((td) => getComputedStyle(td).whiteSpace === 'nowrap' && td.textContent !== td.querySelector('code')?.textContent).map((td) => td.textContent).join('; ')`); got != "" {
			t.Errorf("at %d px, sentences do not wrap: %s", width, got)
		}
	}
	eval[string](b, `location.hash = '#/read/articles'`) // has wide code and wide tables
	b.wait(`document.querySelector('.pages a[aria-current]')?.getAttribute('href') === '#/read/articles' && !!document.querySelector('.prose pre') && document.documentElement.scrollWidth <= 390`)
}
