package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lastitem/internal/cli"
	"lastitem/testkit"
)

// testPlayRead opens the page of a mode from its run, follows it back to the button, and searches all pages.
func testPlayRead(t *testing.T, b *tab) {
	t.Helper()
	b.look(1440, "light")
	eval[string](b, `location.hash = '#/read/modes/fencing-strict'`)
	b.wait(`!!document.querySelector('.prose h1')?.textContent.startsWith('fencing-strict') && ` +
		`document.querySelectorAll('.pages a[aria-current]').length === 1`)
	got := eval[string](b, `document.querySelector('.page-tools a').getAttribute('href')`)
	if got != "#/run/fencing-strict" {
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
	b.wait(`document.querySelectorAll('.hits mark').length > 3 && [...document.querySelectorAll('.hits ` +
		`mark')].every((m) => m.textContent === '看门狗')`)
	b.shot("search-zh-light")
	eval[bool](b, `document.querySelector('.hits a').click() ?? true`)
	b.wait(`document.querySelector('.prose') !== null && document.getElementById('r-search').value === ''`)
	b.look(390, "dark")
	b.wait(`document.documentElement.scrollWidth <= 390`)
	b.shot("read-zh-dark-390")
	eval[string](b, `location.hash = '#/read/locks'`)
	b.wait(`!!document.querySelector('.prose h1') && document.querySelector('.pages ` +
		`a[aria-current]')?.getAttribute('href') === '#/read/locks' && document.documentElement.scrollWidth <= 390`)
	eval[string](b, `location.hash = '#/read/choose'`)
	b.wait(`document.querySelector('.pages a[aria-current]')?.getAttribute('href') === '#/read/choose' && ` +
		`!!document.querySelector('.prose td a code')`)
	for _, width := range []int64{1280, 390} {
		b.look(width, "light")
		if got := eval[string](b, `[...document.querySelectorAll('.prose td a code')].filter((c) => `+
			`c.getClientRects().length > 1).map((c) => c.textContent).join(' ')`); got != "" {
			t.Errorf("at %d px, names of modes are broken over several lines: %s", width, got)
		}
		if got := eval[string](b, `[...document.querySelectorAll('.prose td')].filter((td) => `+
			`getComputedStyle(td).whiteSpace === 'nowrap' && td.textContent !== `+
			`td.querySelector('code')?.textContent).map((td) => td.textContent).join('; ')`); got != "" {
			t.Errorf("at %d px, sentences do not wrap: %s", width, got)
		}
	}
	eval[string](b, `location.hash = '#/read/articles'`) // has wide code and wide tables
	b.wait(`document.querySelector('.pages a[aria-current]')?.getAttribute('href') === '#/read/articles' && ` +
		`!!document.querySelector('.prose pre') && document.documentElement.scrollWidth <= 390`)
}

// testPlayMatrix filters the matrix, opens a cell that is broken and one that is exact, and plays the first one's
// schedule by keys.
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
	names := eval[string](b, `[...document.querySelectorAll('.grid tbody code')].map((c) => c.textContent).join(' ')`)
	if names == "" || strings.Contains(names, "lua-lock") {
		t.Errorf("the modes that get stuck are %q, want some, and not lua-lock", names)
	}
	eval[string](b, `location.hash = '#/matrix/lua-lock/sql/pause/O'`)
	b.wait(`document.querySelectorAll('.story-row').length > 20`)
	eval[bool](b, `document.querySelector('.story-box').focus() ?? true`)
	b.do("home", chromedp.KeyEvent(kb.Home))
	for range 4 {
		b.do("right", chromedp.KeyEvent(kb.ArrowRight))
	}
	if got := eval[string](b, `document.querySelector('.story [aria-current=step] .is-held') ? `+
		`document.querySelector('.where').textContent.split(' ')[0] : document.querySelector('.story `+
		`[aria-current=step]').textContent`); got != "4" {
		t.Errorf("after four steps A is not held at step 4: %q", got)
	}
	b.do("space", chromedp.KeyEvent(" "))
	b.wait(`Number(document.querySelector('.where').textContent.split(' ')[0]) > 4`)
	b.do("space", chromedp.KeyEvent(" "))
	if got := eval[string](b, `[...document.querySelectorAll('.ledger .figure-value')].map((f) => f.textContent).join(' `+
		`')`); got != "10 8 3" {
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

// axeSum is the SHA-256 of axe.min.js of axe-core 4.14.1.
const axeSum = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"

// axePages are the pages that axe-core looks at, and what is there when they have been drawn.
var axePages = map[string]string{
	"#/run":     `.verdict-line, .empty`,
	"#/compare": `.compare tbody tr, .empty`,
	"#/matrix":  `.grid td a`, "#/matrix/setnx/redis/failover/L": `.story-row`,
	"#/matrix/lease-seq/sql/pause": `.witness .verdict`,
	"#/product/101":                `.product tbody td`,
	"#/read":                       `.cards a`,
	"#/read/modes/lua-lock":        `.prose h1`, "#/read/interview": `.prose h1`, "#/read/console": `.prose h1`,
}

// axeSteps are schedules of the page Step: at the start, with a client that waits, one that is dead and one that is
// stopped, won, and impossible.
var axeSteps = map[string]string{
	"#/step/unsafe": `.client`, "#/step/before-commit/aaaaaabbbb": `.phase-waiting`, "#/step/lock-out/aakb": `.phase-dead`,
	"#/step/watchdog/aaasx":        `.phase-stopped`,
	"#/step/fencing/aaxbbaaaabbbb": `.verdict`, "#/step/charge-twice/aaaalarah": `.phase-executed`,
}

// testPageScroll looks at every view, wide and narrow: nothing is below its end, and the arrow keys in a list of modes
// scroll the list only, where it is in the window.
func testPageScroll(t *testing.T, p *idle) {
	t.Helper()
	for _, width := range []int64{1440, 390} {
		p.look(width, "light")
		for view, sign := range axePages {
			eval[string](p.tab, fmt.Sprintf(`location.hash = %q`, view))
			p.wait(`!!document.querySelector('` + sign + `')`)
			// The focus itself scrolls where the list is below the end of the window.
			const focus = `(document.activeElement?.blur(), scrollTo(0, 0), document.querySelector('[name=mode]:checked')` +
				`?.focus(), scrollY === 0 && document.activeElement?.name === 'mode')`
			inWindow := eval[bool](p.tab, focus)
			if inWindow {
				for range 30 {
					p.do("down", chromedp.KeyEvent(kb.ArrowDown))
				}
			}
			got := eval[[]int](p.tab, `[scrollY, document.documentElement.scrollHeight - Math.max(innerHeight,
				Math.ceil(document.getElementById('main').getBoundingClientRect().bottom + scrollY))]`)
			// A line that came above the list meanwhile may have moved it below the end.
			if inWindow && got[0] > 0 && eval[bool](p.tab, focus) || got[1] > 0 {
				t.Errorf("%s, %d px: Down has scrolled to %d, and %d px are blank below the end", view, width, got[0], got[1])
			}
		}
	}
	p.look(1280, "light")
}

// axeScript returns a script that defines axe.
func axeScript(t *testing.T) string {
	t.Helper()
	script := testkit.Read(t, filepath.Join("testdata", "axe-core", "axe.min.js"))
	if sum := sha256.Sum256(script); hex.EncodeToString(sum[:]) != axeSum {
		t.Fatal("axe.min.js is not the one that was vendored")
	}
	return string(script) + "\ntrue"
}

// axe returns what axe-core finds wrong with the document as it is, a line for each rule. The document has run the
// script.
func (b *tab) axe() []string {
	b.t.Helper()
	eval[bool](b, `(() => {
		window.axeFound = null;
		axe.run(document, { resultTypes: ['violations'] }).then((r) => { window.axeFound =
			r.violations.map((v) => v.id + ': ' +
				v.nodes.slice(0, 4).map((n) => n.target.join(' ') + ' ' + n.failureSummary.split('\n')[1])
					.join(' | ')).join('\n'); });
		return true;
	})()`)
	b.wait(`window.axeFound !== null`)
	return strings.FieldsFunc(eval[string](b, `window.axeFound`), func(r rune) bool { return r == '\n' })
}

// testPlayAxe lets axe-core look at pages in both themes and languages, wide and narrow. It finds nothing.
func testPlayAxe(t *testing.T, b *tab, pages map[string]string) {
	t.Helper()
	eval[bool](b, axeScript(t))
	for i, theme := range []string{"light", "dark"} {
		b.look([]int64{1440, 390}[i], theme)
		eval[bool](b, `document.getElementById('lang').click() ?? true`)
		for page, sign := range pages {
			eval[bool](b, `(() => {
				document.getElementById('main').replaceChildren();
				if (location.hash === '`+page+`') // the last page of the round before
					dispatchEvent(new HashChangeEvent('hashchange'));
				location.hash = '`+page+`';
				return true;
			})()`)
			b.wait(`document.querySelector('` + sign + `') !== null`)
			for _, line := range b.axe() {
				t.Errorf("%s, %s: %s", page, theme, line)
			}
		}
	}
}

// envPictures names the directory of the documentation's pictures, which TestPictures writes: make pictures.
const envPictures = "SHOP_TEST_PICTURES"

// maxPicture bounds a picture, in bytes: a README is read over slow lines too.
const maxPicture = 300 << 10

// TestPictures takes the pictures that the documentation shows, from the page in a browser, in both languages.
func TestPictures(t *testing.T) {
	dir := testkit.Asked(t, envPictures, "make pictures")
	b := pictureTab(t, startPlay(t, program(t)))
	for _, lang := range []string{"en", "zh"} {
		b.take(dir, lang)
	}
	b.clean()
}

// pictures is a tab that takes pictures.
type pictures struct {
	*tab
	address string
}

func pictureTab(t *testing.T, p playing) pictures {
	t.Helper()
	b := pictures{openTab(t, p.base), p.address}
	b.look(1280, "light")
	return b
}

// take takes the picture in a language.
func (b pictures) take(dir, lang string) {
	b.t.Helper()
	b.do("open", chromedp.Navigate(strings.Replace(b.address, "#", "?lang="+lang+"#", 1)))
	b.wait(`!!document.querySelector('.go')`)
	b.run("unsafe")
	b.wait(redOverlaps)
	b.save(dir, "run."+lang)
}

// save writes a picture of what is in the window.
func (b pictures) save(dir, name string) {
	b.t.Helper()
	eval[bool](b.tab, `(scrollTo(0, 0), true)`)
	quality, beyond := int64(85), true
	got, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: "webp", Quality: &quality, CaptureBeyondViewport: &beyond,
		Clip: &page.Viewport{Width: 1280, Height: 860, Scale: 1},
	})
	testkit.Must(b.t, err)
	if len(got.Data) < 5<<10 || len(got.Data) > maxPicture {
		b.t.Errorf("%s has %d bytes, want 5 to 300 kB", name, len(got.Data))
	}
	testkit.Must(b.t, os.WriteFile(filepath.Join(dir, name+".webp"), got.Data, 0o644))
}

// TestReports opens the HTML reports of each command in a browser: axe-core finds nothing, in a wide and light page and
// a narrow and dark one, and nothing is wider than the window.
func TestReports(t *testing.T) {
	t.Parallel()
	shop := program(t)
	balancer := strings.Fields(startUntil(t, "  balancer ", shop, "up", "--port", "0", "--backend", "embedded",
		"--no-console"))[0]
	dir := t.TempDir()
	b := openTab(t, "file://"+dir)
	script := axeScript(t)
	for i, lang := range []string{"en", "zh"} {
		file := func(name string) string { return filepath.Join(dir, name+"-"+lang) }
		report := func(want int, name string, args ...string) {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), shop, append([]string{name, "--html", file(name) + ".html", "--lang", lang},
				args...)...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "SHOP_ADMIN_TOKEN=t0ken")
			out, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != want {
				t.Fatalf("shop %s: exit %d, %v, want %d\n%s", name, code, err, want, out)
			}
		}
		report(cli.ExitOK, "demo", "--mode", "unsafe,lua-lock,zookeeper", "--stock", "200", "--url", balancer, "--out",
			file("demo")+".json")
		report(exitThreshold, "loadtest", "--url", balancer, "--mode", "lua-lock,redis-lua", "--stock", "200",
			"--threshold", "oversold==0", "--threshold", "p(50)<1us")
		report(cli.ExitOK, "lab", "--mode", "unsafe", "--fault", "threads")
		for _, name := range []string{"demo", "loadtest", "lab"} {
			b.do("open", chromedp.Navigate("file://"+file(name)+".html"))
			eval[bool](b, `document.querySelectorAll('details').forEach((d) => { d.open = true; }) ?? true`)
			eval[bool](b, script)
			for j, width := range []int64{1280, 390} {
				theme := []string{"light", "dark"}[j]
				b.look(width, theme)
				if i == j {
					for _, line := range b.axe() {
						t.Errorf("%s, %s, %s, %d px: %s", name, lang, theme, width, line)
					}
				}
				if w := eval[int64](b, `document.documentElement.scrollWidth`); w > width {
					t.Errorf("%s, %s: %d px wide in a window of %d", name, lang, w, width)
				}
				b.shot(strings.Join([]string{"report", name, lang, theme}, "-"))
			}
		}
	}
	b.clean()
}
