package shopfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lastitem/target"
	"lastitem/testkit"
)

// read reads a description from a text.
func read(t *testing.T, said string) (*File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(said), 0o600))
	f, err := Read(path)
	if err != nil {
		err = &short{strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", "")}
	}
	return f, err
}

type short struct{ said string }

func (s *short) Error() string { return s.said }

// A mistake is said with its line, its field, and what is expected.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	const one, books = "buy: POST /buy\n", "stock: {sql: SELECT 1}\norders: {sql: SELECT 2}\n"
	for _, tt := range []struct{ said, want string }{
		{"", "shop.yaml:1: want the description of one service, as in docs/shop-yaml.md"},
		{"url: [", "shop.yaml:1: "},
		{"buy: POST /buy\nbuy: POST /b", "shop.yaml:2: "},
		{"buy: {post: /pay/{{cart}}}", "shop.yaml:1: ',' or '}' must be specified: inside {...} and [...] a text with"},
		{"- a", "shop.yaml:1: shop.yaml: want a map, names with values"},
		{"service: x\nurl: http://a", "shop.yaml:1: buy: it is missing: what a buyer sends, as in POST /buy"},
		{one + "stok: {sql: SELECT 1}", "shop.yaml:2: stok: there is no such field; did you mean stock?"},
		{one + "qqqqq: 1", "shop.yaml:2: qqqqq: there is no such field; there are allow_untested, arrange, buy, "},
		{"buy: buy it", "shop.yaml:1: buy: want METHOD PATH [BODY], as in POST /buy?product={{product}}, or a map"},
		{"buy:\n  post: buy", "shop.yaml:2: buy.post: want a path of the service, as in /buy"},
		{"buy:\n  pos: /buy", "shop.yaml:2: buy.pos: there is no such field; did you mean post?"},
		{"buy: {post: /buy, get: /buy}", "shop.yaml:1: buy.get: one step is one request"},
		{"buy: {sold: 200}", "shop.yaml:1: buy: want a request, as in post: /buy"},
		{"buy: {post: /buy, json: {a: 1}, form: {a: 1}}", "shop.yaml:1: buy: want one of json, form and body"},
		{"buy:\n  post: /buy\n  sold: {status: 99}", "shop.yaml:3: buy.sold.status: want HTTP statuses, as in 409 or [200, " +
			"201]"},
		{"buy: {post: /buy, sold: [200, no]}", "shop.yaml:1: buy.sold: want HTTP statuses, as in 409 or [200, 201]"},
		{"buy: {post: /buy, sold: {body: '('}}", "shop.yaml:1: buy.sold.body: want a regular expression: error parsing " +
			"regexp"},
		{"buy: {post: '/buy?c={{cart}}'}", "shop.yaml:1: buy: nothing has saved {{cart}}; there are {{product}}, " +
			"{{quantity}}, "},
		{"arrange:\n  - {post: /cart, sold: 200}\n" + one, "shop.yaml:2: arrange[0].sold: there is no such field; there " +
			"are body, "},
		{"arrange:\n  - {post: /cart, save: {cart: id}}\n" + one, "shop.yaml:2: arrange[0].save.cart: want a JSON pointer " +
			"as in /data/id, or {header: Name}"},
		{"arrange: {post: /c, save: {key: /k}}\n" + one, "shop.yaml:1: arrange[0].save.key: every buyer has this value " +
			"already: take another name"},
		{"arrange: {post: /c, save: {cart: {}}}\n" + one, "shop.yaml:1: arrange[0].save.cart: want one of json, header, " +
			"cookie and regex"},
		{one + "then: {get: /o}", "shop.yaml:2: then.until: it is missing: what the answer looks like when the outcome is " +
			"known"},
		{one + "then: {get: /o, until: 200, within: soon}", "shop.yaml:2: then.within: want a time, as in 500ms, 30s or 5m"},
		{one + "settle: 5", "shop.yaml:2: settle: want a time, as in 500ms, 30s or 5m"},
		{one + "insecure: 'yes'", "shop.yaml:2: insecure: want true or false"},
		{one + "url:\n  host: a", "shop.yaml:3: url: want a text"},
		{one + "stock: {sql: SELECT 1, url: /s}", "shop.yaml:2: stock: want one of sql, redis and url"},
		{one + "stock: {url: '/s#/a', add: /b}", "shop.yaml:2: stock: add and subtract belong to a url without '#', and " +
			"add comes first"},
		{one + "stock: {url: /s, add: b}", "shop.yaml:2: stock.add: want JSON pointers, as in [/onHand]"},
		{one + "orders: {url: /s, add: /b}", "shop.yaml:2: orders.add: there is no such field; there are redis, sql, url"},
		{one + "reset:\n- POST /reset\n- sql: DELETE FROM orders", "shop.yaml:4: reset: resets run in this order: sql, " +
			"redis, requests, commands"},
		{one + "cancel: POST /c/{{order}}", "shop.yaml:2: cancel: it needs stock and orders, which show"},
		{one + books + "cancel: {post: '/c/{{ordr}}'}", "shop.yaml:4: cancel: nothing has saved {{ordr}}; there are " +
			"{{product}}, {{quantity}}, {{key}}, {{buyer}}, {{uuid}}, {{order}}"},
		{one + books + "cancel: {post: /c, sold: 200}", "shop.yaml:4: cancel.sold: there is no such field; there are body"},
		{one + books + "cancel: {post: /c, done: {status: x}}", "shop.yaml:4: cancel.done.status: want HTTP statuses"},
		{"buy: {post: /b, save: {order: /o}}\n" + books + "cancel: POST /c", "shop.yaml:4: cancel: here {{order}}"},
		{one + books + "ship: POST /s", "shop.yaml:4: ship: it is sent while an order is cancelled"},
		{"buy: {post: '/buy?o={{order}}'}", "shop.yaml:1: buy: nothing has saved {{order}}"},
		{one + "start: {command: x, ready: {path: /h}}", "shop.yaml:2: start.ready.path: there is no such field; there are " +
			"get, within"},
		{one + "start: {command: x, setup: [{sql: S}, mysql]}", "shop.yaml:2: start.setup: commands run before SQL: write " +
			"them first"},
	} {
		if _, err := read(t, tt.said); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s\n= %v\nwant %s", tt.said, err, tt.want)
		}
	}
}

// Fields that are flags become these; a purchase of one request needs no steps.
func TestReadFlags(t *testing.T) {
	t.Parallel()
	f, err := read(t, `service: flask-shop
url: http://127.0.0.1:9000
headers: {X-Shop: "7"}
products: ["7"]
start:
  command: ./start {{port}}
  env: {DB: "{{mysql}}"}
  setup: [./migrate, {sql: "@schema.sql"}]
  ready: {get: /health, within: 5m}
buy:
  post: /buy
  json: {id: "{{product}}", lines: [{n: 2}], note: null}
  sold: {status: 200, body: '"ok":true', order: /data/id}
  refused: SOLD_OUT
  declined: [423, 429]
stock: {url: "/s/{{product}}", subtract: [/out], add: [/a, /b]}
reset:
  - {sql: "UPDATE s SET n = {{stock}}"}
  - POST /reset/{{product}}
  - {put: "/s/{{product}}", json: '{"n": {{stock}}}'}
  - {command: "./clear {{product}}"}
reset_within: 2m
insecure: true
keep_redis: false
`)
	testkit.Must(t, err)
	var all []string
	for _, s := range f.Settings {
		all = append(all, s.Flag+" "+s.Value)
	}
	testkit.Same(t, all, []string{
		"name flask-shop", "url http://127.0.0.1:9000", "header X-Shop: 7", "serve ./start {{port}}", "env DB={{mysql}}",
		"setup-cmd ./migrate", "setup-sql @schema.sql", "ready /health", "ready-within 5m0s",
		"stock-url /s/{{product}}#/b+/a-/out", "reset-sql UPDATE s SET n = {{stock}}", "reset-url POST /reset/{{product}}",
		`reset-url PUT /s/{{product}} {"n": {{stock}}}`, "reset-cmd ./clear {{product}}", "reset-within 2m0s",
		"insecure true", "ok 200", `ok-body "ok":true`, "refused any", "refused-body SOLD_OUT", "declined 423,429",
		"order-id /data/id", `request POST /buy {"id":"{{product}}","lines":[{"n":2}],"note":null}`,
	}, "flags")
	testkit.Is(t, f.Buy == nil && f.Flagless == nil, true, "no steps: %v", f.Flagless)
	testkit.Same(t, f.Products, []string{"7"}, "products")
}

// Steps, what they save, and an outcome that comes later.
func TestReadSteps(t *testing.T) {
	t.Parallel()
	f, err := read(t, `arrange:
  - GET /login
  - post: /login
    form: {user: "{{buyer}}", "a b": "x&{{key}}"}
    save: {token: {header: X-Token}, csrf: {regex: 'csrf" value="(\w+)'}, id: /cart/id}
    refused: {location: /full}
session: {header: {Authorization: "Bearer {{token}}"}}
buy:
  - {post: "/carts/{{id}}", body: "<buy/>", headers: {Content-Type: text/xml}, refused: 410}
  - {post: "/pay/{{id}}", save: {job: /job}}
then: {get: "/jobs/{{job}}", until: {body: sold|cancelled}, within: 2s, sold: sold, refused: cancelled}
`)
	testkit.Must(t, err)
	testkit.Same(t, f.Arrange, []target.Step{{Method: "GET", Path: "/login"}, {
		Method: "POST", Path: "/login", Type: formType, Body: "user={{buyer}}&a+b=x%26{{key}}",
		Save: []target.Save{{Name: "token", Header: "X-Token"}, {Name: "csrf", Regex: `csrf" value="(\w+)`},
			{Name: "id", JSON: "/cart/id"}}, Refused: target.Meaning{Location: "/full"},
	}}, "arrange")
	testkit.Same(t, f.Buy, []target.Step{
		{Method: "POST", Path: "/carts/{{id}}", Type: "text/plain", Body: "<buy/>",
			Headers: []string{"Content-Type: text/xml"},
			Refused: target.Meaning{Statuses: []int{410}}},
		{Method: "POST", Path: "/pay/{{id}}", Save: []target.Save{{Name: "job", JSON: "/job"}},
			Sold: target.Meaning{Statuses: []int{200, 201, 202}}},
	}, "buy")
	testkit.Same(t, f.Then, &target.Then{Step: target.Step{Method: "GET", Path: "/jobs/{{job}}"},
		Until: target.Meaning{Body: "sold|cancelled"}, Within: 2 * time.Second}, "then")
	testkit.Same(t, f.Session, []string{"Authorization: Bearer {{token}}"}, "session")
	testkit.Is(t, len(f.Flagless), 4, "fields without a flag: %v", f.Flagless)
}

// What ends an order has answers of its own, and makes a step even of a purchase that flags can say.
func TestReadEndings(t *testing.T) {
	t.Parallel()
	f, err := read(t, `buy: {post: /buy, save: {cart: /cart}, sold: {order: /id}}
cancel: {delete: "/carts/{{cart}}/{{order}}", headers: {X-Who: "{{buyer}}"}, done: {status: [200, 302]},
  refused: SHIPPED}
ship: POST /ship {"id":"{{order}}"}
stock: {sql: SELECT 1}
orders: {sql: SELECT 2}
`)
	testkit.Must(t, err)
	testkit.Same(t, f.Cancel, &target.Step{Method: "DELETE", Path: "/carts/{{cart}}/{{order}}",
		Headers: []string{"X-Who: {{buyer}}"}, Sold: target.Meaning{Statuses: []int{200, 302}},
		Refused: target.Meaning{Body: "SHIPPED"}}, "cancel")
	testkit.Same(t, f.Ship, &target.Step{Method: "POST", Path: "/ship", Type: jsonType, Body: `{"id":"{{order}}"}`,
		Sold:    target.Meaning{Statuses: []int{200, 201, 204}},
		Refused: target.Meaning{Statuses: []int{409}}}, "ship")
	f, err = read(t, "buy: POST /buy\ncancel: POST /c/{{order}}\nstock: {sql: SELECT 1}\norders: {sql: SELECT 2}\n")
	testkit.Must(t, err)
	testkit.Is(t, len(f.Buy) == 1 && f.Plain && len(f.Flagless) == 1, true, "buy %v, no flags %v", f.Buy, f.Flagless)
}

// The complete examples of the page, in both languages, have no mistake; that of Vendure is the file that runs.
func TestExamples(t *testing.T) {
	t.Parallel()
	found, vendure := 0, string(testkit.Read(t, "../../examples/vendure/shop.yaml"))
	for _, page := range []string{"shop-yaml.md", "shop-yaml.zh.md"} {
		for i, part := range strings.Split(string(testkit.Read(t, "../../docs/"+page)), "```") {
			if said, is := strings.CutPrefix(part, "yaml\nservice:"); is && i%2 == 1 {
				found++
				_, err := read(t, "service:"+said)
				testkit.Mustf(t, err, "%s: %s", page, said)
				if strings.HasPrefix(said, " vendure\n") {
					testkit.Same(t, "service:"+said, vendure, "%s", page)
				}
			}
		}
	}
	if found < 4 {
		t.Errorf("%d complete examples, want two in each page at least", found)
	}
}
