package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// envScreenshots names a directory in which the browser tests leave what they saw.
const envScreenshots = "SHOP_TEST_SCREENSHOTS"

// tab is a page in a real browser. It notes what must not be: errors, and requests to others than the console.
type tab struct {
	t    *testing.T
	ctx  context.Context //nolint:containedctx // chromedp keeps the browser in it
	base string

	mu    sync.Mutex
	wrong []string
}

// chromium is the browser of all tests, started when the first tab is opened.
var chromium struct {
	sync.Mutex
	ctx   context.Context //nolint:containedctx // chromedp keeps the browser in it
	close []func()
}

// startChromium returns the context of the browser.
func startChromium(path string) (context.Context, error) {
	chromium.Lock()
	defer chromium.Unlock()
	if chromium.ctx != nil {
		return chromium.ctx, nil
	}
	dir, err := os.MkdirTemp("", "lastitem-chromium-")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Env("TMPDIR="+dir))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeTab := chromedp.NewContext(allocator)
	chromium.close = []func(){closeTab, end, func() { _ = os.RemoveAll(dir) }}
	if err := chromedp.Do(ctx); err != nil {
		return nil, err
	}
	chromium.ctx = ctx
	return ctx, nil
}

// closeChromium ends the browser, and removes what it left behind.
func closeChromium() {
	for _, end := range chromium.close {
		end()
	}
}

// openTab opens a tab that shares nothing with other tabs, such as cookies.
func openTab(t *testing.T, base string) *tab {
	t.Helper()
	ctx, err := startChromium(testenv.Program(t, "chromium", "chromium"))
	testkit.Must(t, err)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, base: base}
	testkit.Must(t, chromedp.Listen(ctx, b.note))
	for _, err := range []error{
		called(chromedp.Call(ctx, network.Enable, network.EnableParams{})),
		called(chromedp.Call(ctx, log.Enable, struct{}{})),
	} {
		testkit.Must(t, err)
	}
	return b
}

func called[R any](_ R, err error) error { return err }

// note keeps what must not be.
func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, b.base) && !strings.HasPrefix(u, "about:") {
			b.wrong = append(b.wrong, "a request to "+u)
		}
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, fmt.Sprintf("an exception: %+v", e.ExceptionDetails))
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" {
			b.wrong = append(b.wrong, "an error on the console: "+e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// do runs an action.
func (b *tab) do(what string, a chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	testkit.Mustf(b.t, chromedp.Do(b.ctx, a), "%s", what)
}

// eval returns the value of an expression.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	testkit.Mustf(b.t, err, "%s", expression)
	return v
}

// wait waits until an expression is true.
func (b *tab) wait(expression string) {
	b.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !eval[bool](b, expression); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.shot("failed")
			loaded := eval[string](b, `document.readyState + ': ' + performance.getEntriesByType('resource').map((r) => `+
				`r.name + ' ' + r.responseStatus).join(', ')`)
			says := eval[string](b, "document.body.innerText")
			b.mu.Lock()
			wrong := slices.Clone(b.wrong)
			b.mu.Unlock()
			b.t.Fatalf("waited two minutes for %s; the page says %s; it has loaded %s; what must not be: %q", expression, says,
				loaded, wrong)
		}
	}
}

// look sets the size of the window, and the colours.
func (b *tab) look(width int64, scheme string) {
	b.t.Helper()
	b.do("size", chromedp.EmulateViewport(width, 900))
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}); err != nil {
		b.t.Fatal(err)
	}
}

// shot leaves a picture of the page where pictures are wanted.
func (b *tab) shot(name string) {
	b.t.Helper()
	dir := os.Getenv(envScreenshots)
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600)
	}
	testkit.Is(b.t, err, nil, "screenshot %s", name)
}

// run presses the button for a mode, and waits for the verdict.
func (b *tab) run(mode string) (verdict string) {
	b.t.Helper()
	b.wait(`!document.querySelector('.go').disabled`) // the page knows the last run, and shows it
	before := eval[string](b, `document.querySelector('.verdict')?.dataset.run ?? ""`)
	eval[bool](b, fmt.Sprintf(`(() => {
		document.querySelector('input[value=%q]').click();
		const stock = document.getElementById('f-stock');
		stock.value = '150';
		stock.dispatchEvent(new Event('input'));
		document.querySelector('.go').click();
		return true;
	})()`, mode))
	// All at once: a mode that must break is run again until it does, and the next attempt takes the verdict of the last
	// one away.
	b.wait(fmt.Sprintf(`!!document.getElementById('verdict') && document.querySelector('.verdict').dataset.run !== %q &&
		!document.querySelector('.go').classList.contains('stop')`, before))
	return eval[string](b, `document.getElementById('verdict').textContent`)
}

// redOverlaps says whether the timeline has pixels in the colour of overlaps.
const redOverlaps = `(() => {
	const canvas = document.querySelector('canvas.lanes');
	if (canvas.hidden) return false;
	const probe = document.createElement('canvas').getContext('2d');
	probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--bad').trim();
	probe.fillRect(0, 0, 1, 1);
	const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
	const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
	for (let i = 0; i < data.length; i += 4)
		if (data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255) return true;
	return false;
})()`

// testPlayBrowser looks at the page in a real browser.
func testPlayBrowser(t *testing.T, p playing) {
	b := openTab(t, p.base)
	b.look(1440, "light")
	b.do("open", chromedp.Navigate(strings.Replace(p.address, "#", "?lang=en#", 1)))
	b.wait(`!!document.getElementById('verdict')`) // of the last run before
	if at := eval[string](b, "location.href"); strings.Contains(at, p.token) {
		t.Errorf("the token is still in the address: %s", at)
	}
	if got := b.run("unsafe"); !strings.HasPrefix(got, "Oversold. ") {
		t.Errorf("unsafe: %q, want that it oversold", got)
	}
	b.wait(redOverlaps)
	if rows := eval[int](b, `document.querySelectorAll('.pairs tbody tr').length`); rows == 0 {
		t.Error("unsafe: no overlap is listed in the table")
	}
	b.shot("run-unsafe-en-light")
	b.look(1440, "dark")
	eval[bool](b, `document.getElementById('lang').click() ?? true`)
	if got := b.run("lease-seq"); !strings.HasPrefix(got, "精确。") {
		t.Errorf("lease-seq: %q, want that it was exact", got)
	}
	if got := eval[string](b, `document.querySelector('.figure-overlaps .figure-value').textContent`); got != "0" {
		t.Errorf("lease-seq: %s overlaps, want 0", got)
	}
	if eval[bool](b, redOverlaps) {
		t.Error("lease-seq: the timeline has overlaps")
	}
	// The curve of an exact run ends at its stock: what a browser adds up from frames is what was sold.
	b.wait(`document.querySelector('.plot[aria-label^="已售"]').getAttribute('aria-label').endsWith('：150')`)
	b.wait(`document.querySelector('.plot[aria-label^="库存"]').getAttribute('aria-label') === '库存：0'`)
	b.shot("run-lease-seq-zh-dark")
	b.look(390, "light")
	b.wait(`document.documentElement.scrollWidth <= 390`)
	b.shot("run-lease-seq-zh-390")
	testPlayTickets(t, b)
	testPlayHolds(t, b)
	testPlayKeyboard(t, b)
	testPlayProduct(t, b)
	testPlayCompare(t, b)
	testPlayMatrix(t, b)
	testPlayRead(t, b)
	testPlayAxe(t, b, axePages)
	b.clean()
}

// clean reports what must not be.
func (b *tab) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.wrong {
		b.t.Error(w)
	}
}

// testPlayHolds runs a mode that holds units: the page lists when holds ended, those that were paid and those that a
// sweep has ended, and Compare tells of them.
func testPlayHolds(t *testing.T, b *tab) {
	t.Helper()
	b.look(1440, "light")
	if got := b.run("reserve-sql"); !strings.HasPrefix(got, "精确。") {
		t.Errorf("reserve-sql: %q, want that it was exact", got)
	}
	eval[bool](b, `document.querySelector('.pairs details').open = true`)
	sums := eval[[]int](b, `[1, 3].map((i) => [...document.querySelectorAll('.pairs tbody tr')]
		.reduce((sum, row) => sum + Number(row.cells[i].textContent.replaceAll(',', '')), 0))`)
	sold, err := strconv.Atoi(eval[string](b, `document.querySelector('.figure-sold .figure-value').textContent`))
	if err != nil || sold > sums[0] || sums[0]-sold > sums[0]/4 || sums[1] == 0 { // one in twenty orders comes back
		t.Errorf("the table lists %d paid and %d expired, and %d are sold (%v); want as many paid but for returns, and some "+
			"expired", sums[0], sums[1], sold, err)
	}
	if !eval[bool](b, `!!document.querySelector('.plot[aria-label="每秒结束的预扣数"] canvas') &&
		document.querySelector('.plot[aria-label^="锁"]').closest('figure').hidden`) {
		t.Error("no chart of the ends of holds in place of that of locks")
	}
	b.shot("run-reserve-sql-zh-light")
}

// testPlayTickets runs a mode that answers with tickets: the page adds up those that have ended, lists the lives of
// some, and looks at both stores of the product by a button that the keyboard reaches.
func testPlayTickets(t *testing.T, b *tab) {
	t.Helper()
	b.look(1440, "light")
	if got := b.run("redis-stream"); !strings.HasPrefix(got, "本次负载下精确。") {
		t.Errorf("redis-stream: %q, want that it was exact", got)
	}
	const told = `[document.querySelector('.figure-overlaps .figure-value').textContent,
		[...document.querySelectorAll('.chart')].filter((c) => !c.hidden).length,
		document.querySelector('.figure-overlaps .figure-note').textContent === '最多 0',
		[...document.querySelectorAll('.pairs tbody tr')].map((row) =>
			[...row.cells].map((c) => c.textContent).join(' ')).every((life) =>
				/ms · 副本 [123] \+.*(s · 副本 [123]) \+.*s \+.*s .*s 已售 …/.test(life))].join()`
	testkit.Is(t, eval[string](b, told), "0,4,false,true", "in flight, charts, none ever in flight, lives of tickets")
	eval[bool](b, `document.querySelector('.pairs details').open = true`)
	b.shot("run-redis-stream-zh-light")
	eval[bool](b, axeScript(t))
	found := b.axe()
	eval[string](b, `location.hash = '#/product/101'`)
	b.wait(`!!document.querySelector('.look:not([hidden]) button')`)
	eval[bool](b, `document.querySelector('.product-list .scroll').focus() ?? true`)
	b.do("tab", chromedp.KeyEvent("\t"))
	b.do("enter", chromedp.KeyEvent("\r"))
	b.wait(`[...document.querySelectorAll('.look .figure-value')].map((v) => v.textContent).join() === '0,0,0,0'`)
	b.look(390, "dark")
	b.wait(`document.documentElement.scrollWidth <= 390`)
	b.shot("product-look-zh-dark-390")
	for _, line := range append(found, b.axe()...) {
		t.Errorf("tickets: %s", line)
	}
	eval[string](b, `location.hash = '#/run/redis-stream'`)
}

// testPlayKeyboard reaches the button with the keyboard alone, and moves the timeline.
func testPlayKeyboard(t *testing.T, b *tab) {
	t.Helper()
	b.look(1440, "light")
	b.wait(`!document.querySelector('.go').disabled`)
	eval[bool](b, `document.querySelector('.picker input[type=search]').focus() ?? true`)
	for range 8 {
		b.do("tab", chromedp.KeyEvent("\t"))
		if eval[bool](b, `document.activeElement.classList.contains('go')`) {
			before := eval[string](b, `document.querySelector('.verdict').dataset.run`)
			b.do("enter", chromedp.KeyEvent("\r"))
			b.wait(fmt.Sprintf(`document.querySelector('.verdict').dataset.run !== %q && !!document.getElementById('verdict')`,
				before))
			return
		}
	}
	t.Error("eight times Tab from the filter do not lead to the button")
}

// testPlayCompare runs two modes and sorts the table by their verdict and by their speed.
func testPlayCompare(t *testing.T, b *tab) {
	t.Helper()
	eval[string](b, `location.hash = '#/compare'`)
	b.wait(`document.querySelector('[name=mode][value=unsafe]')?.type === 'checkbox' && ` +
		`!document.querySelector('.go').disabled && !document.querySelector('.go').classList.contains('stop')`)
	before := eval[string](b, `document.querySelector('.verdict')?.dataset.run ?? ""`)
	eval[bool](b, `(() => {
		document.querySelectorAll('.quick button')[2].click();
		for (const mode of ['unsafe', 'reserve-sql']) document.querySelector('[name=mode][value=' + mode + ']').click();
		document.querySelector('.go').click();
		return true;
	})()`)
	b.wait(fmt.Sprintf(`(document.querySelector('.verdict')?.dataset.run ?? %[1]q) !== %[1]q && `+
		`document.querySelectorAll('.compare tbody tr').length === 2`, before))
	first := func(column string) string {
		eval[bool](b, fmt.Sprintf(`document.querySelector('[data-sort=%s]').click() ?? true`, column))
		return eval[string](b, `document.querySelector('.compare tbody code').textContent`)
	}
	if got := first("verdictColumn"); got != "unsafe" {
		t.Errorf("by verdict %s is first, want the broken one", got)
	}
	if got := first("verdictColumn"); got != "reserve-sql" {
		t.Errorf("by verdict, once more, %s is first, want the exact one", got)
	}
	got := eval[string](b, `document.querySelector('.compare tbody').textContent`)
	if !strings.Contains(got, "，预扣中 0；取消 ") {
		t.Errorf("the table says %s, want the holds of reserve-sql in it", got)
	}
	if bars := eval[int](b, `[...document.querySelectorAll('.bar')].filter((x) => x.offsetWidth > 0).length`); bars != 2 {
		t.Errorf("%d bars, want one for each mode", bars)
	}
	b.shot("compare-zh-light")
}
