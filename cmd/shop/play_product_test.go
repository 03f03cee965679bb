package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
)

// idleShop is a shop with one product, on which somebody else buys a unit between two readings. It loses its first
// answer.
type idleShop struct {
	reads atomic.Int64
	mu    sync.Mutex
	keys  []string // of what it was asked to do
}

// ServeHTTP implements http.Handler.
func (s *idleShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		s.mu.Lock()
		s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
		n := len(s.keys)
		s.mu.Unlock()
		if n == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Idempotent-Replayed", "true")
		_, _ = io.WriteString(w, `{"delta":10}`)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/reservations") {
		_, _ = io.WriteString(w, `{"product_id":101,"store":"sql","held":3,"ordered":1,"reservations":[{"buyer":"ann",`+
			`"reservation_id":"r1","state":"held","quantity":3,"expires_us":4000000000000000,"mode":"reserve-sql",`+
			`"events":[{"now":"held","at_us":1}]}]}`)
		return
	}
	orders := ""
	for i := range s.reads.Add(1) {
		orders += fmt.Sprintf(`,{"order_id":"o%d","quantity":1,"mode":"redis-lua","store":"sql","created_at":`+
			`"2026-11-29T12:00:00Z"}`, i)
	}
	_, _ = fmt.Fprintf(w, `{"product_id":101,"initial":{"sql":10},"stock":{"sql":6},"orders":[%s]}`, orders[1:])
}

// fill puts a value into a field, as somebody who types does.
func (b *tab) fill(field, value string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`(() => {
		const field = document.querySelector(%q);
		field.value = %q;
		return field.dispatchEvent(new Event('input'));
	})()`, field, value))
}

// actSays is where the page of a product tells of the last act.
const actSays = `.product-says`

// testPageProduct adjusts the stock of a product and loses the answer: the page says so, and sends the same key again.
// While rows are added, a number that somebody types stays, and so does the focus. Whoever has no token sees the
// orders, and no more.
func testPageProduct(t *testing.T, p *idle) {
	t.Helper()
	p.open("t0ken")
	p.says(".controls legend", "Mode")
	eval[string](p.tab, `location.hash = '#/product/101'`)
	p.wait(`document.querySelectorAll('.row-tools .units').length > 0`)
	eval[bool](p.tab, `document.getElementById('p-delta').closest('form').requestSubmit() ?? true`)
	p.says(actSays, "adjust the stock by +10: it is unknown whether it happened (502 Bad Gateway); repeat it only with")
	eval[bool](p.tab, `[...document.querySelectorAll('.product td button')]`+
		`.find((b) => b.textContent.startsWith('Repeat')).click() ?? true`)
	p.says(actSays, "adjust the stock by +10: done; the answer of the first time")
	p.shop.mu.Lock()
	if k := p.shop.keys; len(k) != 2 || k[0] != k[1] || !strings.HasPrefix(k[0], "console-") {
		t.Errorf("the keys are %q, want one twice", k)
	}
	p.shop.mu.Unlock()
	p.fill(".row-tools .units", "2")
	rows := eval[int](p.tab, `(document.querySelector('.row-tools .units').focus(), `+
		`document.querySelectorAll('.product tbody tr').length)`)
	p.wait(fmt.Sprintf(`document.querySelectorAll('.product tbody tr').length > %d`, rows))
	if !eval[bool](p.tab, `document.activeElement.className === 'units' && document.activeElement.value === '2'`) {
		t.Error("a new row has taken the focus, or the number, away")
	}
	testPageLook(p)
	guest := idle{tab: openTab(t, p.base)}
	guest.do("open", chromedp.Navigate(p.base+"/console/?lang=en#/product/101"))
	guest.says(".product .note", "Read-only")
	guest.wait(`document.querySelectorAll('.product tbody code').length > 0`)
	if eval[bool](guest.tab, `!!document.querySelector('.product-form, .row-tools')`) {
		t.Error("without the token there are buttons to act")
	}
	eval[string](guest.tab, `location.hash = '#/run'`)
	guest.says(".session h1", "This page needs the stack's token")
}

// testPageLook shows what looks have found: units that Redis has forgotten, and that nothing can be said.
func testPageLook(p *idle) {
	p.t.Helper()
	got := soon[string](p.tab, `import('/console/tickets.js').then(({ lookPanel }) => {
		const panel = lookPanel(() => {}), of = (said) => {
			panel.draw({ done: { said } }, 7, '12:00');
			return panel.box.lastChild.innerText ?? panel.box.lastChild.textContent;
		};
		document.getElementById('main').append(panel.box);
		const says = [of({ drift: -2, leaked: 1, forgotten: 3, front: 5, in_flight: 4, book: 6, oldest_ms: 1500,
			generation: 0 }),
			of({ code: 'reconcile_refused', detail: 'it is not sold by tickets' })];
		panel.box.remove();
		return says.join('|').replace(/\s+/g, ' ');
	})`)
	for _, want := range []string{"front 5 in flight 4 the oldest for 1.5 s 1 of them sold in the book book 6 drift -2 " +
		"leaked 1, " +
		"forgotten 3 Leaked 1: the front has lost", " Forgotten 3: SQL has sold or held",
		"shop reconcile --product 7 --repair Copy|",
		"|12:00 it is not sold by tickets"} {
		if !strings.Contains(got, want) {
			p.t.Errorf("the panel says %q, want %q in it", got, want)
		}
	}
}

// testPlayProduct holds three units by hand, cancels one, pays for the others and returns one, with the keyboard alone.
// The page is in Chinese.
func testPlayProduct(t *testing.T, b *tab) {
	t.Helper()
	b.look(1440, "light")
	eval[string](b, `location.hash = '#/product/101'`)
	b.wait(`document.querySelectorAll('.product tbody td').length > 0`)
	p := &idle{tab: b}
	// press moves from a field with Tab to the button that begins so, and presses Enter.
	press := func(from, button, says string) {
		t.Helper()
		// The page may be redrawing the table.
		b.wait(fmt.Sprintf(`document.querySelector(%[1]q) !== null && (document.querySelector(%[1]q).focus(), true)`, from))
		for range 60 {
			if eval[bool](b, fmt.Sprintf(`document.activeElement.tagName === 'BUTTON' && `+
				`document.activeElement.textContent === %q`, button)) {
				b.do("enter", chromedp.KeyEvent("\r"))
				p.says(actSays, says)
				return
			}
			b.do("tab", chromedp.KeyEvent("\t"))
		}
		t.Errorf("Tab from %s does not lead to %s", from, button)
	}
	b.fill("#p-delta", "5")
	press("#p-delta", "调整", "库存调整 +5 件：已完成")
	b.fill("#p-units", "3")
	b.fill("#p-buyer", "ann")
	press("#p-buyer", "预扣", "预扣 3 件，买家 ann：已完成")
	b.fill(".product input[type=search]", "ann")
	b.wait(`document.querySelectorAll('.row-tools .units').length === 1`)
	b.fill(".row-tools .units", "1")
	press(".row-tools .units", "取消", "取消 ")
	b.wait(`document.querySelector('.row-tools .units')?.value === '2'`)
	b.shot("product-held-zh-light")
	id := eval[string](b, `document.querySelector('.row-tools').closest('tr').querySelector('code').textContent`)
	press("#p-reason", "支付", "支付 "+id+"：已完成")
	b.fill(".product input[type=search]", id)
	// The tools are those of the order, and no longer those of what was paid for.
	b.wait(`[...document.querySelectorAll('.row-tools')].map((r) => r.textContent.includes('退回库存')).join() === 'true'`)
	b.fill(".row-tools .units", "1")
	press(".row-tools .units", "退回库存", "退货 ")
	b.wait(`[...document.querySelectorAll('.product td')].some((c) => c.textContent === '2，已退 1')`)
	b.look(390, "light")
	b.wait(`document.documentElement.scrollWidth <= 390`)
	b.shot("product-zh-390")
	for _, scheme := range []string{"light", "dark"} {
		for _, lang := range []string{"zh", "en"} {
			b.look(1440, scheme)
			b.shot("product-" + lang + "-" + scheme)
			eval[bool](b, `document.getElementById('lang').click() ?? true`)
			b.wait(`document.querySelectorAll('.product tbody td').length > 0`)
		}
	}
}
