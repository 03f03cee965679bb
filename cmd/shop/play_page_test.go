package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"lastitem/console"
	"lastitem/console/web"
	"lastitem/contract/api"
	"lastitem/testkit"
)

// idleDriver has the modes of this binary, and runs none.
type idleDriver struct {
	*playDriver
	down atomic.Bool // the stack does not answer
}

func (d *idleDriver) Modes(context.Context) ([]api.Mode, error) {
	if d.down.Load() {
		return nil, errors.New("no stack")
	}
	all := modesHere()
	for i := range all {
		all[i].Available = true
	}
	return all, nil
}

// idle is a console without a stack, which can be started again under its address.
type idle struct {
	*tab
	driver *idleDriver
	shop   idleShop
	server *httptest.Server
	facts  console.Facts
	now    atomic.Pointer[console.Console]
	cut    atomic.Bool // the network between the browser and the console, of which neither is told
}

// startIdle starts a console and opens a tab.
func startIdle(t *testing.T) *idle {
	t.Helper()
	facts, err := consoleFacts()
	testkit.Must(t, err)
	p := &idle{driver: &idleDriver{playDriver: &playDriver{}}, facts: facts}
	p.driver.url = testkit.Serve(t, &p.shop).URL
	p.restart()
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for p.cut.Load() && r.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond) // a request into a network that was cut waits
		}
		p.now.Load().ServeHTTP(cutWriter{w, &p.cut}, r)
	}))
	t.Cleanup(p.end)
	p.tab = openTab(t, p.server.URL)
	return p
}

// end ends the console for good. The server waits for the streams, which the console ends.
func (p *idle) end() {
	p.now.Load().Close()
	p.server.Close()
}

// Drive runs until it is stopped: there are no replicas.
func (d *idleDriver) Drive(ctx context.Context, _ console.Spec, _ func(console.Step)) error {
	<-ctx.Done()
	return ctx.Err()
}

// restart ends the console, and starts another one that does not know the session of the last.
func (p *idle) restart() {
	o := console.Options{Token: "t0ken", URL: p.driver.url, Stack: []string{"none"},
		Replicas: []console.Replica{{Name: "1"}, {Name: "2"}}, Files: web.Files(), Facts: p.facts}
	if last := p.now.Swap(console.New(o, p.driver)); last != nil {
		last.Close()
	}
}

// open opens the page with a token.
func (p *idle) open(token string) {
	p.t.Helper()
	p.do("leave", chromedp.Navigate("about:blank"))
	p.do("open", chromedp.Navigate(p.base+"/console/?lang=en#token="+token))
}

// says waits until an element's text begins with these words.
func (p *idle) says(selector, words string) {
	p.t.Helper()
	p.wait(fmt.Sprintf(`!!document.querySelector(%q)?.textContent.startsWith(%q)`, selector, words))
}

// soon returns what the promise of an expression becomes.
func soon[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	testkit.Mustf(b.t, err, "%s", expression)
	return v
}

// TestConsolePage holds what the page does without a run.
func TestConsolePage(t *testing.T) {
	t.Parallel()
	p := startIdle(t)
	p.look(1280, "light")
	testPageTokens(t, p)
	testPageLinks(t, p)
	testPageForm(t, p)
	testPageScroll(t, p)
	testPageText(t, p)
	testPageCharts(t, p)
	testPageRun(t, p)
	testPageVerdict(t, p)
	testPageRead(t, p)
	testPageProduct(t, p)
	testPageWindows(t, p)
	testPageSilence(p)
	testPageEnds(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.wrong {
		// what a server refuses is an error on the console
		if strings.HasPrefix(w, "an exception") || strings.HasPrefix(w, "a request") {
			t.Error(w)
		}
	}
}

// testPageTokens opens the page with a wrong token and without a stack, and restarts the console while the page is
// open.
func testPageTokens(t *testing.T, p *idle) {
	t.Helper()
	p.open("wrong")
	p.says(".session .message", "That is not the token")
	p.driver.down.Store(true)
	p.open("t0ken")
	p.says("main .message", "This page cannot be shown now: no stack")
	p.driver.down.Store(false)
	p.wait(`!!document.querySelector('.controls .go') && document.getElementById('link').classList.contains('is-live')`)
	p.restart()
	p.says(".session h1", "This page needs the stack's token")
	p.open("t0ken")
	p.wait(`!!document.querySelector('.controls .go') && document.getElementById('link').classList.contains('is-live')`)
}

// testPageLinks opens malformed links, links to nothing, and one from the end of a page.
func testPageLinks(t *testing.T, p *idle) {
	t.Helper()
	for _, link := range []struct{ at, selector, words string }{
		{"#/run/%E0%A4%A", ".empty h2", "Sell the last item"},
		{"#/matrix/%E0%A4%A", ".matrix h1", "What breaks what"},
		{"#/matrix/lua-lock/sql/pause", ".witness h1", "lua-lock oversells"},
		{"#/nonsense", "main .message", "There is no such page."},
		{"#/matrix/lua-lock/sql/pause/Z", "main .message", "This page cannot be shown now: not found"},
		{"#/read/%E0%A4%A", ".read .stage", "There is no such page."},
		{"#/compare", ".empty h2", "One load"},
	} {
		eval[string](p.tab, fmt.Sprintf(`location.hash = %q`, link.at))
		p.says(link.selector, link.words)
	}
	eval[string](p.tab, `location.hash = '#/matrix'`)
	p.wait(`document.querySelectorAll('.grid td a').length > 300`)
	eval[bool](p.tab, `(() => { scrollTo(0, 900); `+
		`document.querySelector('[data-cell="zookeeper/redis/pause"]').click(); return true; })()`)
	p.wait(`document.querySelectorAll('.story-row').length > 20`)
	p.wait(`scrollY === 0`)
}

// testPageForm chooses a mode and a number of clients on the page Run.
func testPageForm(t *testing.T, p *idle) {
	t.Helper()
	eval[string](p.tab, `location.hash = '#/run/unsafe'`)
	p.wait(`document.querySelector('[name=mode]:checked')?.value === 'unsafe'`)
	eval[bool](p.tab, `(() => {
		document.querySelector('[value=lease-seq]').click();
		const clients = document.getElementById('f-clients');
		clients.value = '7';
		clients.dispatchEvent(new Event('input'));
		return true;
	})()`)
	p.says(".empty p", "Choose a mode and press Run. 7 clients ask")
	eval[bool](p.tab, `document.getElementById('lang').click() ?? true`)
	p.says(".empty p", "选一个模式，点“运行”。7 个客户端")
	if got := eval[string](p.tab, `document.querySelector('[name=mode]:checked').value`); got != "lease-seq" {
		t.Errorf("after a change of the language %s is chosen, want lease-seq", got)
	}
	eval[bool](p.tab, `document.querySelector('.picker input[type=search]').focus() ?? true`)
	p.do("enter", chromedp.KeyEvent("lua\r"))
	if eval[bool](p.tab, `document.querySelector('.go').disabled || `+
		`document.querySelector('.go').classList.contains('stop') || !!document.querySelector('.verdict')`) {
		t.Error("Enter in the filter has started a run")
	}
}

// testPageText looks for asterisks in the Chinese pages, and measures a table's first column.
func testPageText(t *testing.T, p *idle) {
	t.Helper()
	got := soon[[]string](p.tab, `(async () => {
		const get = async (path) => (await fetch('api/' + path + '?lang=zh')).json();
		const pages = await Promise.all((await get('pages')).map((x) => get('pages/' + x.name)));
		return ['' + pages.length, ...pages.filter((x) => {
			const page = new DOMParser().parseFromString(x.html, 'text/html');
			page.querySelectorAll('code, details').forEach((c) => c.remove());
			return page.body.textContent.includes('**');
		}).map((x) => x.name)];
	})()`)
	if len(got) != 1 || len(got[0]) < 2 {
		t.Errorf("asterisks in these Chinese pages, of %s: %q", got[0], got[1:])
	}
	eval[string](p.tab, `location.hash = '#/read/choose'`)
	p.wait(`document.querySelectorAll('.prose td:first-child a code').length > 10`)
	for _, width := range []int64{1280, 390} {
		p.look(width, "light")
		if narrow := eval[int](p.tab, `Math.min(...[...document.querySelectorAll('.prose td:first-child a code')].map((c) `+
			`=> c.closest('td').offsetWidth))`); narrow < 60 {
			t.Errorf("at %d px, the column of modes is %d px wide, want 60 or more", width, narrow)
		}
	}
	p.look(1280, "light")
}

// testPageCharts adds up a load that begins after a pause and passes its stock: all charts begin with it, and the red
// at the stock.
func testPageCharts(t *testing.T, p *idle) {
	t.Helper()
	got := soon[string](p.tab, `import('/console/charts.js').then(({ series, splits }) => {
		const pause = Array(25).fill([0, 0, 0, null, null, null, null]);
		const model = { width: 20, bins: [...pause, [4, 0, 0, 1, 10, 10, 10], [0, 0, 0, null, null, null, null],
			[4, 1, 0, -3, 10, 10, 10]] };
		const s = series(model, 5);
		const free = Array(3).fill([4, 0, 0, 1, null, null, null]);
		return JSON.stringify([s.stock, s.orders[0], s.rate[0], s.lock[0], series(model, 5, -4).stock[1].at(-1),
			s.locks, series({ width: 20, bins: free }, 5).locks, splits(null, 0, 0, 0.24, 0.1),
			series({ width: 20, bins: [[0, 0, 0, 3], [1, 0, 0, 2]] }, 5, 4, true).stock[3],
			series({ width: 40, bins: [[3, 0, 0, 2], [1, 0, 0, 1, null, null, null, 0, 0, 0, 2, 4000, 6000]] }, 5, 1, false,
				true)].map((x) => x?.age ? [...x.orders.slice(4), ...x.age.slice(1)] : x));
	})`)
	const want = `[[[0,0.02,0.04,0.045,0.06],[5,1,1,null,-3],[5,1,1,0,-3],[null,null,null,null,null]],` +
		`[0,0.02,0.04,0.045,0.06],[0.04,0.06],[0.04,0.06],-4,true,false,[0,0.1,0.24],[0,0],` +
		`[[0,0,2],[0,3,2],[null,6],[null,4]]]`
	if got != want {
		t.Errorf("the charts draw %s, want %s", got, want)
	}
}

// drawRun is a function for the page: it shows a run of a mode, whose first overlapping sections are no longer kept.
const drawRun = `window.drawRun = async (mode) => {
	const [{ RunView }, { Model }] = await Promise.all(['run', 'model'].map((name) => import('/console/' + name + '.js')));
	const state = await (await fetch('api/state')).json(), model = new Model();
	const run = {
		id: 1, spec: { modes: [mode], stock: 10 }, state: 'running', attempt: 1, step: { mode, phase: 'run', done: 0 },
		results: [] };
	model.on('begin', { run });
	for (let n = 0; n < 50; n++) {
		const bars = [];
		for (let i = 0; i < 100; i++) bars.push([i % 2, 'k', (n * 100 + i) * 100, (n * 100 + i) * 100 + 150, 1, '1-' + i]);
		model.on('frame', { lanes: ['1', '2'], width: 20, from: n > 0 ? n + 1 : 0,
			bins: [...(n > 0 ? [] : [[0, 0, 0]]), [2, 1, 0, mode === 'noop' ? null : 10 - n, 5, 5, 5]], bars,
			pairs: n > 0 ? [] : [{ a: '1-1', b: '2-2', at: 20200, by: 50 }, { a: '1-0', b: '2-1', at: 20100, by: 50 }],
			sections: (n + 1) * 100, overlaps: (n + 1) * 100, left_out: 0 });
	}
	model.on('result', { ...run, state: 'ended', results: [{
		mode, result: { sent: 150, codes: {}, finding: 'confirmed', verdicts: [] } }] });
	new RunView({ state, model }).show(document.getElementById('main'), mode);
	return true;
}, true`

// testPageRun shows a long run, and one of the baseline.
func testPageRun(t *testing.T, p *idle) {
	t.Helper()
	eval[string](p.tab, `location.hash = '#/matrix'`) // whose page draws nothing by itself
	p.wait(`document.querySelectorAll('.grid td a').length > 300`)
	eval[bool](p.tab, drawRun)
	soon[bool](p.tab, `drawRun('unsafe')`)
	p.wait(`!!document.querySelector('canvas.lanes')`)
	if !eval[bool](p.tab, redOverlaps) {
		t.Error("after a long run the timeline is empty")
	}
	if got := eval[string](p.tab, `document.querySelector('.pairs td').textContent`); got != "0.10 ms" {
		t.Errorf("the table of overlaps begins at %s, want the first, 0.10 ms after the charts begin", got)
	}
	const labels = `[...document.querySelectorAll('.plot')].slice(0, 2).map((x) => x.getAttribute('aria-label')).join(' ` +
		`') + ' ' + document.querySelectorAll('.figure-sold.is-bad').length`
	testkit.Is(t, eval[string](p.tab, labels), "已售件数与原有库存：100 库存：-39 1", "unsafe")
	soon[bool](p.tab, `drawRun('noop')`)
	testkit.Is(t, eval[string](p.tab, labels), "已售件数与原有库存：100 库存：– 0", "noop")
}

// testPageVerdict words exact results: only that of a run which went to its end, without a lost answer, of a mode that
// nothing breaks, is green.
func testPageVerdict(t *testing.T, p *idle) {
	t.Helper()
	got := soon[string](p.tab, `(async () => {
		const v = await import('/console/verdict.js'), { Model } = await import('/console/model.js');
		const safe = { claims: { sql: { threads: '.', replicas: '.', retry: 'D' } } };
		const weak = { claims: { sql: { threads: '.', pause: 'O' } } };
		const r = { verdicts: [{ verdict: 'EXACT', found: '' }], latency: {} }, ended = { state: 'ended' };
		const model = new Model(), bins = [[1, 0, 0], ...Array(100).fill([0, 0, 0]), [1, 0, 0]];
		model.frame({ lanes: [], width: 20, from: 0, bins, bars: [], pairs: [], sections: 0,
			marks: [{ at: 20000, replica: '2', what: 'gone' }] });
		return [v.loadTone(ended, r, safe), v.loadTone({ state: 'stopped' }, r, safe), v.loadTone(ended, r, weak),
			v.loadTone(ended, { ...r, latency: { failed: { count: 3 } } }, safe),
			v.loadTone({ state: 'stopped' }, { verdicts: [{ verdict: 'BROKEN', found: 'O' }] }, weak),
			model.silence().seconds.toFixed(1), model.until(20000).bins.length,
			v.details({ ...r, plan: { holding: { double_clicks: 0.05 } } }, { ...ended, spec: {} })[0].textContent].join();
	})()`)
	if want := "good,none,unsure,unsure,bad,2.0,1,每 100 个买家中有 5 个"; !strings.HasPrefix(got, want) {
		t.Errorf("the tones, the silence and the hazards that a run plays are %s, want %s", got, want)
	}
}

// testPageRead opens the index of Read, asks a question, and looks at a page as it is printed.
func testPageRead(t *testing.T, p *idle) {
	t.Helper()
	p.open("t0ken")
	p.says(".controls legend", "Mode")
	eval[string](p.tab, `location.hash = '#/read'`)
	p.says(".cards a", "Which mode for me")
	if n := eval[int](p.tab, `document.querySelectorAll('.cards a').length`); n != 5 {
		t.Errorf("%d cards, want 5", n)
	}
	ask := func(q string) {
		eval[bool](p.tab, fmt.Sprintf(`(() => {
			const search = document.getElementById('r-search');
			search.value = %q;
			search.dispatchEvent(new Event('input'));
			return true;
		})()`, q))
	}
	ask("[failover (")
	p.says(".read .stage p", "Nothing for") // a bracket is no pattern
	ask("oversold after failover")
	p.says(".hits p", "Oversold after a Redis failover")
	if got := eval[string](p.tab, `[...document.querySelectorAll('.hits li:first-child mark')].slice(0, 3).map((m) => `+
		`m.textContent).join()`); got != "Oversold,after,failover" {
		t.Errorf("%s stand out in the first hit, want each word", got)
	}
	eval[string](p.tab, `location.hash = '#/read/interview'`)
	p.wait(`document.querySelectorAll('.prose .shell .copier').length > 50`)
	if eval[bool](p.tab, `!!document.querySelector('.prose .shell .language-text')`) {
		t.Error("the output of a command has a button to copy it")
	}
	for _, media := range []string{"print", ""} {
		_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: media})
		testkit.Must(t, err)
		if hidden := eval[bool](p.tab, `['.top', '.controls', '.copier'].every((s) => `+
			`getComputedStyle(document.querySelector(s)).display === 'none')`); hidden != (media == "print") {
			t.Errorf("media %q: the page hides the parts that paper cannot use: %t", media, hidden)
		}
	}
}

// testPageWindows runs a mode in one window: another one says whose it is, and asks before it stops it.
func testPageWindows(t *testing.T, p *idle) {
	t.Helper()
	other := idle{tab: openTab(t, p.base)}
	other.open("t0ken")
	other.wait(`document.querySelector('.go')?.disabled === false`)
	p.open("t0ken")
	eval[string](p.tab, `location.hash = '#/run/mutex'`)
	p.wait(`document.querySelector('[name=mode]:checked')?.value === 'mutex' && !document.querySelector('.go').disabled`)
	eval[bool](p.tab, `document.querySelector('.go').click() ?? true`)
	p.wait(`document.querySelector('.go').textContent === 'Stop'`)
	const theirs = "Stop (started in another window)"
	other.says(".go", theirs)
	other.wait(`document.querySelector('.verdict p').textContent.endsWith('mutex · started in another window')`)
	eval[string](other.tab, `location.hash = '#/compare'`)
	other.wait(`!!document.querySelector('.quick')`)
	other.says(".go", theirs)
	eval[bool](other.tab, `document.querySelector('.go').click() ?? true`)
	other.says(".controls .message", "mutex was started in another window. Press again to stop it.")
	testkit.Is(t, eval[string](p.tab, `document.querySelector('.go').textContent`),
		"Stop", "one press in another window has made the button")
	eval[bool](other.tab, `document.querySelector('.go').click() ?? true`)
	p.says(".verdict-line", "Stopped before the end.")
	p.says(".go", "Run")
}

// testPageEnds ends the console: the page says what to do, and starts no run.
func testPageEnds(p *idle) {
	p.t.Helper()
	p.end()
	p.says("#ended:not([hidden])", "The console has ended, or cannot be reached.")
	p.wait(`document.querySelector('.go').disabled`)
	p.shot("console-ended")
}
