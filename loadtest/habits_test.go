package loadtest

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/judge"
	"lastitem/loadtest/plan"
	"lastitem/target"
	"lastitem/testkit"
	"lastitem/testkit/habits"
)

// habit is a shop with a habit, and what must be said of it.
type habit struct {
	name    string
	verdict judge.Verdict // "" = the trial ends the run
	says    string        // part of a sentence; "" = none is asked for
	found   string
	change  func(f *target.Foreign, p *plan.Plan)
}

// Correct shops: none is BROKEN, whatever its habits.
var rightHabits = []habit{
	{"", judge.Exact, "--settle 30s watches longer", "", nil},
	{"pages by Link", judge.Exact, "", "", func(f *target.Foreign, _ *plan.Plan) { f.Orders.URL = "/orders/{{product}}" }},
	{"pages by next", judge.Exact, "", "", nil},
	{"more to come", judge.Inconclusive, `not the whole list, as its "has_more":true says`, "", nil},
	{"lists late", judge.Exact, "", "", nil},
	{"counts late", judge.Exact, "", "", nil},
	{"numbers of its own", judge.Exact, "", "", nil},
	{"padded numbers", judge.Exact, "", "", nil},
	{"numbers with a check digit", judge.Exact, "50 answers name none", "", nil},
	{"numbers with a check digit", judge.Exact, "5 answers name none", "", func(_ *target.Foreign, p *plan.Plan) {
		p.Stock = 5
	}},
	{"keeps five back", judge.Inconclusive, "as many were left as at the end, 5", "", soldOutSays},
	{"keeps five back", judge.Inconclusive, "as many were left as at the end, 5", "",
		func(f *target.Foreign, p *plan.Plan) {
			soldOutSays(f, p)
			f.Orders = target.Source{}
		}},
	{"backorders", judge.Inconclusive, "10 rows differ by their backordered", "", func(_ *target.Foreign, p *plan.Plan) {
		p.Requests = 62
	}},
	{"shows orders by their payments", judge.Inconclusive, "5 rows repeat the order of another", "", nil},
	{"sells what is left", judge.Inconclusive, "is of the last 1", "", func(_ *target.Foreign, p *plan.Plan) {
		p.Quantity, p.Stock = 2, 51
	}},
	{"counts from one each run", judge.Inconclusive, "from another number on", "", nil},
	{"one name for all", judge.Exact, "50 answers name none", "", nil},
	{"numbers that come again", judge.Inconclusive, "share with another the name", "", nil},
	{"rows without ids", judge.Exact, "name none of the orders", "", nil},
	{"a row for each place", judge.Exact, "", "", func(_ *target.Foreign, p *plan.Plan) { p.Quantity = 2 }},
	{"refunds have rows", judge.Inconclusive, "by their refund_of", "", nil},
	{"fails while it holds", judge.Inconclusive, "did these hold units", "", func(f *target.Foreign, _ *plan.Plan) {
		f.Refused.Body, f.Declined.Statuses = "out of stock", []int{402}
	}},
	{"a place below zero", judge.Inconclusive, "a part of the stock fell below zero", "", nil},
	{"one buyer, one order", judge.Inconclusive, "does the service take equal requests for one", "", nil},
	{"says busy as it says sold out", judge.Inconclusive, "by answers like these: 409", "", nil},
	{"a cursor", judge.Inconclusive, "one more page", "", nil},
	{"a total", judge.Inconclusive, "has 20 of them", "", nil},
	{"one full page", judge.Inconclusive, "the list has 20 orders", "", nil},
	{"one short list", judge.Inconclusive, "the list has 37 orders", "", nil},
	{"a total around it", judge.Inconclusive, "has 20 of them", "", func(f *target.Foreign, _ *plan.Plan) {
		f.Orders.URL = "/orders/{{product}}#/data/list"
	}},
	{"a page number", judge.Inconclusive, `one more page, "2"`, "", nil},
	{"a cursor that includes", judge.Exact, "", "", nil},
	{"waitlisted rows", judge.Inconclusive, "differ by their status", "", nil},
	{"voided payments", judge.Inconclusive, "differ by their payment.state", "", nil},
	{"returns", judge.Inconclusive, "gives units back", "", nil},
	{"one order for five", judge.Exact, "about several requests", "", nil},
	{"equal requests are one", judge.Inconclusive, "for one ({{key}} in --request", "", nil},
	{"counts below zero", judge.Exact, "what a restock does", "", nil},
	{"counts below zero", judge.Inconclusive, "lower it too, or more was sold", "", func(f *target.Foreign, _ *plan.Plan) {
		f.Orders = target.Source{}
	}},
	{"unpaid orders expire", judge.Inconclusive, "do unpaid orders expire", "", nil},
	{"turns rivals away", judge.Inconclusive, "by answers like these: 409", "", nil},
	{"a sum", judge.Exact, "", "", nil},
	{"one line", judge.Exact, "", "", func(_ *target.Foreign, p *plan.Plan) { p.Quantity = 2 }},
	{"lines", "", "whose quantities are not read", "", nil},
	{"no quantity", judge.Exact, "the rows do not say it", "", func(_ *target.Foreign, p *plan.Plan) { p.Quantity = 2 }},
	{"cancelled rows", judge.Inconclusive, "does not stand any more", "", nil},
	{"all products in one list", judge.Inconclusive, "of another product", "", nil},
	{"cached stock", "", "comes from a cache (Age: 7)", "", nil},
	{"cart", "", "is this the request that sells?", "", nil},
	{"GraphQL errors", "", "Cannot query field buy", "", nil},
	{"nothing but 500", "", "500 {", "", nil},
	{"redirects resets", "", "was redirected to", "", nil},
	{"", judge.Exact, "", "", func(f *target.Foreign, _ *plan.Plan) { f.Products = []string{"SKU 1/x"} }},
	{"", judge.Vacuous, "at most 1 purchase was in flight", "", func(_ *target.Foreign, p *plan.Plan) { p.VUs = 1 }},
	{"decimals", judge.Exact, "whether two buyers were told each other's order", "", nil},
	{"byte order mark", judge.Exact, "", "", nil},
	{"parts", judge.Exact, "", "", nil},
	{"allocates", judge.Exact, "", "", func(f *target.Foreign, _ *plan.Plan) {
		f.Stock.URL = "/stock/{{product}}#/qty-/allocated"
	}},
	{"says 202 and writes later", judge.Exact, "", "", nil},
	{"says 202 to all", judge.Inconclusive, "orders may still be written", "", nil},
	{"200 and a flag", judge.Inconclusive, `"ok":false`, "", nil},
	{"200 and a flag", judge.Exact, "", "", func(f *target.Foreign, _ *plan.Plan) {
		f.OK.Body, f.Refused = `"ok":true`, target.Meaning{Statuses: []int{200}, Body: `"ok":false`}
	}},
	{"200 and errors", judge.Inconclusive, "INSUFFICIENT_STOCK", "", nil},
	{"redirects", judge.Inconclusive, "/soldout", "", func(f *target.Foreign, _ *plan.Plan) {
		f.OK.Statuses = []int{303}
	}},
	{"one text for all", judge.Inconclusive, "no request was refused", "", nil},
	{"one text for all", judge.Inconclusive, "no request was refused", "", func(f *target.Foreign, _ *plan.Plan) {
		f.Orders = target.Source{}
	}},
	{"", judge.Exact, "", "", cancelling},
	{"", judge.Exact, "", "", shipping},
	{"", judge.Exact, "", "", func(f *target.Foreign, p *plan.Plan) {
		shipping(f, p)
		f.ResetURL = nil
	}},
	{"", judge.Exact, "no order was shipped while", "", func(f *target.Foreign, p *plan.Plan) {
		shipping(f, p)
		p.Stock = 4
	}},
	{"numbers of its own", judge.Exact, "", "", cancelling},
	{"says 202", judge.Exact, "", "", cancelling},
	{"", judge.Exact, "", "", func(f *target.Foreign, p *plan.Plan) { // both clicks buy, and the first order is cancelled
		cancelling(f, p)
		f.Request, f.Buy[0].Body, p.Reserving.DoubleClicks = "", `{"n":{{quantity}}}`, 1
		p.Stock, p.Requests = 400, 240
	}},
	{"puts units back later", judge.Inconclusive, "put the units back some time after", "",
		func(f *target.Foreign, p *plan.Plan) {
			cancelling(f, p)
			soldOutSays(f, p)
		}},
	{"numbers with a check digit", judge.Inconclusive, "which orders were cancelled", "", cancelling},
	{"cancelled rows", "", "must show the orders that stand", "", func(f *target.Foreign, p *plan.Plan) {
		cancelling(f, p)
		f.Cancel.Path = "/stock/{{product}}?{{order}}"
		f.Cancel.Method = "GET"
	}},
	{"in progress", judge.Exact, "or --refused-body, tell them apart", "",
		func(_ *target.Foreign, p *plan.Plan) { p.Reserving.Buyers, p.Reserving.DoubleClicks = 80, 1 }},
}

// Wrong shops: each is BROKEN, with the right letters.
var wrongHabits = []habit{
	{"reads, checks, writes", judge.Broken, "", "O", nil},
	{"loses updates", judge.Broken, "", "O", func(f *target.Foreign, _ *plan.Plan) { f.Orders = target.Source{} }},
	{"never looks", judge.Broken, "", "O", nil},
	{"never looks", judge.Broken, "", "O", func(f *target.Foreign, _ *plan.Plan) { f.Orders = target.Source{} }},
	{"a worker that oversells", judge.Broken, "", "O", nil},
	{"leaks", judge.Broken, "", "L", nil},
	{"leaks", judge.Broken, "", "L", func(f *target.Foreign, _ *plan.Plan) { f.Orders = target.Source{} }},
	{"forgets orders", judge.Broken, "", "A", nil},
	{"sells and forgets", judge.Broken, "", "LA", nil},
	{"refuses what is there", judge.Broken, "refused though in stock", "", nil},
	{"sells and refuses", judge.Broken, "more orders than answers", "", nil},
	{"two orders for one", judge.Broken, "", "O", nil},
	{"wrong quantity", judge.Broken, "with quantity 1 and is stored with 2", "", nil},
	{"one id for two", judge.Broken, "", "", nil},
	{"numbers of other rows", judge.Broken, "", "A", nil},
	{"tells another's order", judge.Broken, "to another idempotency key", "", nil},
	{"sells a key again", judge.Broken, "", "D", func(_ *target.Foreign, p *plan.Plan) { p.Retry, p.Requests = 1, 30 }},
	{"200 and a flag, oversold", judge.Broken, "", "O", nil},
	{"sells to all", judge.Broken, "", "O", nil},
	{"reads, then cancels", judge.Broken, "", "O", cancelling},
	{"reads, then cancels", judge.Broken, "which orders were cancelled", "O",
		func(f *target.Foreign, p *plan.Plan) { // some answers name no order
			cancelling(f, p)
			f.Order = target.Save{Regex: `"order_id":([0-9]*[0-8])}`}
		}},
	{"reads, then cancels", judge.Broken, "answered as shipped and", "A", shipping},
	{"cancels without the units", judge.Broken, "", "L", cancelling},
	{"says cancelled", judge.Broken, "answered as cancelled and stand", "A", cancelling},
}

// cancelling has orders cancelled.
func cancelling(f *target.Foreign, _ *plan.Plan) {
	f.Buy = []target.Step{{Method: "POST", Path: "/buy/{{product}}", Type: "application/json",
		Body: `{"n":{{quantity}},"key":"{{key}}"}`}}
	done, refused := target.Meaning{Statuses: []int{200}}, target.Meaning{Statuses: []int{409}}
	f.Cancel = &target.Step{Method: "POST", Path: "/cancel/{{product}}/{{order}}", Sold: done, Refused: refused}
}

// shipping has some shipped meanwhile.
func shipping(f *target.Foreign, p *plan.Plan) {
	cancelling(f, p)
	ship := *f.Cancel
	ship.Path = "/ship/{{product}}/{{order}}"
	f.Ship = &ship
}

// soldOutSays says what a refusal of a shop looks like: none means that it is busy.
func soldOutSays(f *target.Foreign, _ *plan.Plan) { f.Refused.Body = "out of stock" }

// tried runs a load of 80 purchases on a shop with a stock of 50.
func (h habit) tried(t *testing.T) (Result, error) {
	t.Helper()
	d := &target.Foreign{
		Request:  `POST /buy/{{product}} {"n":{{quantity}},"key":"{{key}}"}`,
		ResetURL: []string{"POST /reset/{{product}}/{{stock}}"},
		Stock:    target.Source{URL: "/stock/{{product}}#/qty"}, Orders: target.Source{URL: "/orders/{{product}}#/items"},
		OK: target.Meaning{Statuses: []int{200, 201, 202}}, Refused: target.Meaning{Statuses: []int{409}},
	}
	p := plan.Plan{VUs: 8, Requests: 80, Product: 7, Stock: 50}
	if h.change != nil {
		h.change(d, &p)
	}
	f := Foreign{Name: "theirs", Lang: "en", Settle: 400 * time.Millisecond}
	if h.name == "unpaid orders expire" {
		f.Watch = f.Settle
	}
	u := serve(t, habits.New(h.name).Handler().ServeHTTP)
	if d.ResetURL == nil {
		r, err := http.Post(u.String()+"/reset/7/50", "", nil)
		testkit.Must(t, err)
		testkit.Must(t, r.Body.Close())
	}
	r, err := d.At(u.String(), "", "")
	testkit.Must(t, err)
	f.Remote = r
	return RunForeign(t.Context(), f, p, nil)
}

func TestHabits(t *testing.T) {
	t.Parallel()
	for kind, all := range map[string][]habit{"right": rightHabits, "wrong": wrongHabits} {
		for _, h := range all {
			t.Run(kind+"/"+h.name, func(t *testing.T) {
				t.Parallel()
				res, err := h.tried(t)
				v, said := judge.Report{}, []string{}
				if err != nil {
					said = append(said, err.Error())
				} else {
					v = res.Verdicts[0]
					said = slices.Concat(res.Why, v.Missing, v.Violations, v.Consequences, v.Unchecked)
				}
				if v.Verdict != h.verdict || !strings.Contains(strings.Join(said, " "), h.says) ||
					h.found != "" && !strings.Contains(v.Found, h.found) {
					t.Errorf("%s %s, want %s %s; it says %q, want %q", v.Verdict, v.Found, h.verdict, h.found, said, h.says)
				}
			})
		}
	}
}
