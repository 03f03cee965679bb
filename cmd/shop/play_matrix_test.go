package main

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// testPlayMatrix filters the matrix, opens a cell that is broken and one that is exact, and plays the first one's schedule by keys.
func testPlayMatrix(t *testing.T, b *tab) {
	t.Helper()
	b.look(1440, "light")
	eval[string](b, `location.hash = '#/matrix'`)
	b.wait(`document.querySelectorAll('.grid td a').length > 300`)
	b.shot("matrix-zh-light")
	eval[bool](b, `(() => {
		const show = document.getElementById('m-outcome');
		show.value = 'X';
		show.dispatchEvent(new Event('change'));
		return true;
	})()`)
	if names := eval[string](b, `[...document.querySelectorAll('.grid tbody code')].map((c) => c.textContent).join(' ')`); names == "" || strings.Contains(names, "lua-lock") {
		t.Errorf("the modes that get stuck are %q, want some, and not lua-lock", names)
	}
	eval[string](b, `location.hash = '#/matrix/lua-lock/sql/pause/O'`)
	b.wait(`document.querySelectorAll('.story-row').length > 20`)
	eval[bool](b, `document.querySelector('.story-box').focus() ?? true`)
	b.do("home", chromedp.KeyEvent(kb.Home))
	for range 4 {
		b.do("right", chromedp.KeyEvent(kb.ArrowRight))
	}
	if got := eval[string](b, `document.querySelector('.story [aria-current=step] .is-held') ? document.querySelector('.where').textContent.split(' ')[0] : document.querySelector('.story [aria-current=step]').textContent`); got != "4" {
		t.Errorf("after four steps A is not held at step 4: %q", got)
	}
	b.do("space", chromedp.KeyEvent(" "))
	b.wait(`Number(document.querySelector('.where').textContent.split(' ')[0]) > 4`)
	b.do("space", chromedp.KeyEvent(" "))
	if got := eval[string](b, `[...document.querySelectorAll('.ledger .figure-value')].map((f) => f.textContent).join(' ')`); got != "10 8 3" {
		t.Errorf("the ledger says %s, want 10 at first, 8 left, 3 ordered", got)
	}
	b.do("end", chromedp.KeyEvent(kb.End))
	if got := eval[string](b, `document.querySelector('.story').textContent`); !strings.Contains(got, "应答：成功") {
		t.Errorf("the story in Chinese says %q, want an answer in Chinese", got)
	}
	b.shot("witness-zh-light")
	b.look(390, "dark")
	b.wait(`document.documentElement.scrollWidth <= 390`)
	b.shot("witness-zh-dark-390")
	eval[string](b, `location.hash = '#/matrix/lease-seq/sql/pause'`)
	b.wait(`document.querySelector('.witness .verdict.is-good .verdict-line') !== null`)
	eval[string](b, `location.hash = '#/matrix'`)
	b.wait(`document.querySelectorAll('.grid td a').length > 0 && document.documentElement.scrollWidth <= 390`)
	b.shot("matrix-zh-dark-390")
}
