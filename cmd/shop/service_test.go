package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/internal/cli"
	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// stepShop sells in three steps: a page with a token, a cart, and a payment. It answers the first payment when all who
// have a cart have come to pay. Unless it is mended, each has read the stock by then: a single buyer is served well.
type stepShop struct {
	mended bool

	mu      sync.Mutex
	paying  *sync.Cond
	stock   int
	orders  []string
	csrf    map[string]string // by session
	shipped map[string]bool
	carts   int // since the stock was set
	came    int // how many have come to pay
}

func (s *stepShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := ""
	if c, err := r.Cookie("session"); err == nil {
		session = c.Value
	}
	switch at := r.Method + " " + r.URL.Path; {
	case at == "GET /login":
		id := uuid.NewString()
		s.csrf[id] = uuid.NewString()
		http.SetCookie(w, &http.Cookie{Name: "session", Value: id, Path: "/"})
		fmt.Fprintf(w, `<form><input name="csrf" value="%s"></form>`, s.csrf[id])
	case at == "PUT /stock":
		_, _ = fmt.Sscan(r.FormValue("n"), &s.stock)
		s.orders, s.carts, s.came = nil, 0, 0
	case at == "GET /stock":
		fmt.Fprintf(w, `{"stock": %d, "orders": [%s]}`, s.stock, strings.Join(s.orders, ","))
	case s.csrf[session] == "" || r.FormValue("csrf") != s.csrf[session]:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "who are you?")
	case at == "POST /cart":
		s.carts++
		fmt.Fprintf(w, `{"cart": {"id": "c-%s"}}`, session)
	case at == "POST /pay/c-"+session:
		s.pay(r.Context(), w)
	case strings.HasPrefix(at, "POST /ship/"), strings.HasPrefix(at, "POST /cancel/"):
		s.end(w, strings.HasPrefix(at, "POST /ship/"), r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (s *stepShop) pay(ctx context.Context, w http.ResponseWriter) {
	left := s.stock
	s.came++
	s.paying.Broadcast()
	defer context.AfterFunc(ctx, func() { // one with a cart may never pay
		s.mu.Lock()
		defer s.mu.Unlock()
		s.paying.Broadcast()
	})()
	for s.came < s.carts && ctx.Err() == nil {
		s.paying.Wait()
	}
	if s.mended {
		left = s.stock
	}
	if left < 1 {
		fmt.Fprint(w, `{"error": "sold out"}`)
		return
	}
	s.stock = left - 1
	s.orders = append(s.orders, fmt.Sprintf("%q", uuid.NewString()))
	fmt.Fprintf(w, `{"order": %s}`, s.orders[len(s.orders)-1])
}

// end ships an order, or cancels one that was not shipped.
func (s *stepShop) end(w http.ResponseWriter, ship bool, order string) {
	at := slices.Index(s.orders, fmt.Sprintf("%q", order))
	switch {
	case at < 0 || s.shipped[order]:
		w.WriteHeader(http.StatusConflict)
	case ship:
		s.shipped = map[string]bool{order: true}
	default:
		s.stock, s.orders = s.stock+1, slices.Delete(s.orders, at, at+1)
	}
}

const stepFile = `service: steps
url: %s
arrange:
  - get: /login
    save: {csrf: {regex: 'name="csrf" value="([^"]+)"'}}
  - post: /cart
    form: {csrf: "{{csrf}}", sku: "{{product}}"}
    save: {cart: /cart/id}
buy:
  post: /pay/{{cart}}
  form: {csrf: "{{csrf}}"}
  sold: {body: '"order"', order: /order}
  refused: {body: sold out}
stock: {url: "/stock#/stock"}
orders: {url: "/stock#/orders"}
reset: ["PUT /stock?n={{stock}}"]
settle: 300ms
`

// described serves the shop and describes it in a file.
func described(t *testing.T, s *stepShop, edit ...string) (file string) {
	t.Helper()
	s.paying, s.csrf = sync.NewCond(&s.mu), map[string]string{}
	said := strings.NewReplacer(edit...).Replace(fmt.Sprintf(stepFile, testkit.Serve(t, s).URL))
	file = filepath.Join(t.TempDir(), "shop.yaml")
	testkit.Must(t, os.WriteFile(file, []byte(said), 0o600))
	return file
}

// All buyers are arranged before the first one pays, so that they meet at the step that sells: a shop that serves each
// well who comes alone sells eight of three. The same shop, mended, is exact. Flags replace fields.
func TestLoadtestService(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		shop *stepShop
		edit []string
		args []string
		code int
		want string
	}{
		{"oversells", &stepShop{}, nil, nil, cli.ExitFailed, "stock 3 to 2, sold 8 in 8 orders, oversold 5"},
		{"mended", &stepShop{mended: true}, nil, nil, cli.ExitOK, "stock 3 to 0, sold 3 in 3 orders, oversold 0"},
		{"the lab's setup", &stepShop{mended: true}, []string{"settle:", "start: {setup: [{sql: SELECT 1}]}\nsettle:"}, nil,
			cli.ExitOK, "sold 3 in 3 orders, oversold 0"},
		{"a flag replaces a field", &stepShop{mended: true}, nil, []string{"--stock-url", "/none"}, cli.ExitUsage,
			"GET /none: 403"},
		{"arranging surprises", &stepShop{}, []string{`form: {csrf: "{{csrf}}", sku`, "form: {sku"}, nil, cli.ExitUsage,
			"step 2 of arrange, POST /cart: it answered 403 who are you?"},
		{"saved nothing", &stepShop{}, []string{"/cart/id", "/cart/no"}, nil, cli.ExitUsage, "{{cart}} is not in its answer"},
		{"by its duration", &stepShop{}, nil, []string{"--requests", "0", "--duration", "1s"}, cli.ExitUsage, "--requests"},
		{"a name that is a number", &stepShop{mended: true}, []string{"settle:", "products: [\"1\", \"2\"]\nsettle:"},
			[]string{"--products", "2"}, cli.ExitOK, "8 requests in all, stock 3, quantity 1"}, // not 2 products
		{"one request instead", &stepShop{}, nil, []string{"--request", "POST /pay"}, cli.ExitUsage,
			"which has several steps"},
		{"a mistake in a field", &stepShop{}, []string{"/stock#/stock", "stock"}, nil, cli.ExitUsage,
			"shop.yaml:14: stock.url: --stock-url"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"--service", described(t, tt.shop, tt.edit...), "--vus", "8", "--stock", "3", "--timeout", "20s"}
			if !strings.Contains(strings.Join(tt.args, " "), "--requests") {
				args = append(args, "--requests", "8")
			}
			code, out, errOut := commandLine(t.Context(), newLoadtest("en"), append(args, tt.args...)...)
			if code != tt.code || !strings.Contains(out+errOut, tt.want) {
				t.Errorf("exit code %d, want %d and %q\n%s%s", code, tt.code, tt.want, out, errOut)
			}
		})
	}
}

// A password stays out of the file: its variable, or its header, is given beside those of the file.
func TestServiceNamesakes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "shop.yaml")
	testkit.Must(t, os.WriteFile(file, []byte("headers: {X-Shop: 7, X-Token: none}\n"+
		"start: {command: ./start, env: {PORT: '{{port}}', PASSWORD: none}}\nbuy: POST /buy\n"), 0o600))
	var f foreignFlags
	set := pflag.NewFlagSet("lab", pflag.ContinueOnError)
	f.register(set, "en")
	testkit.Must(t, set.Parse([]string{"--service", file, "--env", "PASSWORD=word", "--header", "x-token: word"}))
	testkit.Must(t, f.load(set))
	got := append(slices.Sorted(slices.Values(f.f.Env)), slices.Sorted(slices.Values(f.f.Headers))...)
	if want := []string{"PASSWORD=word", "PORT={{port}}", "X-Shop: 7", "x-token: word"}; !slices.Equal(got, want) {
		t.Errorf("the flags and the file say %q, want %q", got, want)
	}
	if said := again("lab", set); !strings.Contains(said, "PASSWORD=") {
		t.Errorf("the command line to repeat it leaves out what is not in the file: %s", said)
	}
}

// A cart that takes the units belongs to what is judged.
func TestLoadtestServiceCartTakes(t *testing.T) {
	t.Parallel()
	stock := 10
	s := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cart" {
			stock--
		}
		fmt.Fprint(w, stock)
	}))
	file := filepath.Join(t.TempDir(), "shop.yaml")
	testkit.Must(t, os.WriteFile(file, []byte("arrange: POST /cart\nbuy: POST /pay\nstock: {url: /stock}\nurl: "+s.URL),
		0o600))
	wantCode(t, exitInconclusive, "the stock fell by 1: a step of arrange takes the units, and belongs to buy",
		newLoadtest("en"), "--service", file, "--requests", "5")
}

func wantCode(t *testing.T, want int, said string, cmd *cobra.Command, args ...string) {
	t.Helper()
	code, out, errOut := commandLine(t.Context(), cmd, args...)
	if code != want || !strings.Contains(out+errOut, said) {
		t.Errorf("%q: exit code %d, want %d and %q\n%s%s", args, code, want, said, out, errOut)
	}
}

var anyID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)

// --check shows each step, its answer and what was saved; --flags the flags that the file stands for.
func TestService(t *testing.T) {
	t.Parallel()
	file := described(t, &stepShop{})
	for _, tt := range []struct{ flag, want string }{
		{"--check", `arrange 1: GET /login
    200 <form><input name="csrf" value="ID"></form>
    csrf = ID
arrange 2: POST /cart csrf=ID&sku=101
    200 {"cart": {"id": "c-ID"}}
    cart = c-ID
buy 1: POST /pay/c-ID csrf=ID
    200 {"order": "ID"}
sold, order "ID"; the stock fell by 1 and one order came
`},
		{"--flags", `shop loadtest \
  --name steps \
  --url URL \
  --stock-url '/stock#/stock' \
  --orders-url '/stock#/orders' \
  --reset-url 'PUT /stock?n={{stock}}' \
  --settle 300ms
no flag says arrange (FILE:4)
no flag says buy (FILE:10)
`},
		{"--lang=en", "FILE: 2 steps to arrange a buyer, 1 to buy; no mistake was found\n"},
	} {
		code, out, errOut := commandLine(t.Context(), newService("en"), file, tt.flag)
		out = anyID.ReplaceAllString(strings.ReplaceAll(out, file, "FILE"), "ID")
		out = regexp.MustCompile(`http://\S+`).ReplaceAllString(out, "URL")
		testkit.Is(t, code, cli.ExitOK, "exit code of %s: %s", tt.flag, errOut)
		testkit.Is(t, out, tt.want, "%s", tt.flag)
	}
	// With a cancel an order is cancelled first, and then one shipped and not cancelled.
	ending := described(t, &stepShop{}, "settle", "cancel: {post: '/cancel/{{order}}', form: {csrf: '{{csrf}}'}}\n"+
		"ship: {post: '/ship/{{order}}', form: {csrf: '{{csrf}}'}}\nsettle")
	code, out, errOut := commandLine(t.Context(), newService("en"), ending, "--check")
	testkit.Is(t, code, cli.ExitOK, "exit code of a check with a cancel: %s", errOut)
	steps := regexp.MustCompile(`(?m)^(cancel|ship): .*\n    \d+|^sold`)
	said := steps.FindAllString(anyID.ReplaceAllString(out, "ID"), -1)
	testkit.Same(t, said, []string{"cancel: POST /cancel/ID csrf=ID\n    200", "ship: POST /ship/ID csrf=ID\n    200",
		"cancel: POST /cancel/ID csrf=ID\n    409", "sold"}, "the steps")
	// One request: the flags are all, and a shell gives them back.
	one := filepath.Join(t.TempDir(), "one.yaml")
	testkit.Must(t, os.WriteFile(one, []byte("products: [\"7\"]\nbuy: {post: /buy, json: {id: \"{{product}}\"}, sold: "+
		"{body: 'it''s'}}\nstart: {command: \"app {{port}} {{redis}}\"}\nstock: {redis: GET s}\norders: {redis: GET o}\n"+
		"reset: [{redis: SET s}]"), 0o600))
	_, out, _ = commandLine(t.Context(), newService("en"), one, "--flags")
	for _, want := range []string{"--request 'POST /buy {\"id\":\"{{product}}\"}'", `--ok-body 'it'\''s'`, "--ok any",
		"--product 7\n", "shop lab \\\n  --serve 'app {{port}} {{redis}}'", "--products 7\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("--flags lacks %s:\n%s", want, out)
		}
	}
	wantCode(t, cli.ExitOK, "no mistake", newService("en"), one)
}

// A mistake that is found after the file was read is said with its line too: of several values of a field, that of the
// wrong one.
func TestServiceLines(t *testing.T) {
	t.Parallel()
	const lab = "buy: POST /buy\nstart: {command: 'app {{port}} {{redis}}'}\nreset: [{redis: SET s 1}]\norders: " +
		"{redis: GET o}\n"
	for _, tt := range []struct{ said, want string }{
		{"buy: POST /buy\nreset:\n- {sql: 'DROP {{prodct}}'}\n- POST /r/{{product}}\n",
			":3: reset.sql: --reset-...: unknown placeholder {{prodct}}"},
		{lab + "stock: {redis: GET s}\nheaders:\n  A: b\n  C: '{{d}}'\n", ":8: headers.C: --header: unknown placeholder"},
		{lab + "stock: {redis: GET s}\nread_headers: {A: '{{d}}'}\n", ":6: read_headers.A: --read-header: unknown"},
		{lab + "stock: {redis: GET s}\nlock_ttl: 5m\n", ":6: lock_ttl: --lock-ttl \"5m0s\": want 1ms to 1m"},
		{lab + "stock: {redis: GET s}\nallow_untested: [late, lte]\n", ":6: allow_untested: --allow-untested \"lte\""},
		{lab, ":1: --stock-sql, --stock-redis or --stock-url: want one of them"},
		{"start: {command: 'app {{port}} {{redis}}', env: {A: '{{b}}'}}\nbuy: POST /buy\n", ":1: start.env.A: --env"},
		{"buy: POST /buy\nstart:\n  command: app\n  setup:\n  - sql: SELECT 1\n  - sql: '@/none'\n",
			":6: start.setup.sql: --setup-sql: open"},
		{"buy: POST /buy\nstart: {command: 'app {{port}} {{redis}}'}\nreset:\n- redis: a\n- redis: \"'\"\n",
			":5: reset.redis: --reset-redis \"'\": want a Redis command"},
		{"buy:\n  post: /buy\n  refused: 200\n", ":3: buy.refused: --refused: status 200 means both"},
		{"buy: POST /buy\nurl: ftp://a\n", ":2: url: --url must be a URL"},
	} {
		file := filepath.Join(t.TempDir(), "one.yaml")
		testkit.Must(t, os.WriteFile(file, []byte(tt.said), 0o600))
		wantCode(t, cli.ExitUsage, "one.yaml"+tt.want, newService("en"), file)
	}
}

// The lab holds the commands of what is bought, not of what is arranged, and a purchase of two steps at each command of
// both. It repeats the last step only: a buyer who was lost before that is no second order of one key.
func TestLabService(t *testing.T) {
	testenv.Slow(t, "plays dozens of schedules on real servers")
	t.Parallel()
	testenv.Installed(t, stack.Redis)
	shop, dir := program(t), t.TempDir()
	front := filepath.Join(dir, "front")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", front, "../../examples/front")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	example := strings.Replace(string(testkit.Read(t, "../../examples/front/shop.yaml")), "bin/front", front, 1)
	guarded := strings.Replace(example, "-redis {{redis}}", "-redis {{redis}} -guarded", 1)
	address := "  - post: /address\n    form: {address: \"{{buyer}}, 1 Main Street\"}\n"
	two := strings.NewReplacer(address, "", "buy:\n  post: /checkout\n  sold", "buy:\n"+address+"  - post: /checkout\n  "+
		"  sold",
		"\n  refused", "\n    refused").Replace(guarded) + "repeat_without_key: true\n"
	for _, tt := range []struct {
		name, file, faults string
		code               int
		want               []string
	}{
		{"reads, checks and writes", example, "replicas", cli.ExitFailed, []string{"replicas    O       16"}},
		{"guarded", guarded, "replicas,pause", cli.ExitOK, []string{"replicas    .       8", "pause       .       8"}},
		{"two steps", two, "replicas,retry", cli.ExitFailed, []string{"replicas    .       12",
			"retry       D ", "A before redis: HGET session:*\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "shop.yaml")
			testkit.Must(t, os.WriteFile(file, []byte(tt.file), 0o600))
			out, code := runShop(t, shop, "lab", "--service", file, "--fault", tt.faults, "--lanes", "1", "--allow-untested",
				"retry")
			testkit.Is(t, code, tt.code, "exit code")
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("the report lacks %q:\n%s", want, out)
				}
			}
		})
	}
}
