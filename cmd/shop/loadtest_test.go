package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/contract/api"
	"lastitem/internal/cli"
	"lastitem/loadtest/plan"
	"lastitem/testkit"
	"lastitem/testkit/fakeshop"
)

// fakeShop is the least service that the load generator takes for lastitem. In mode "lua-lock" it sells exactly, in any
// other whatever is asked for.
type fakeShop struct {
	// deducted is called before each deduction, one at a time.
	deducted func()
	exact    bool // every mode sells as "lua-lock" does
}

// fakeWork is how long the fake takes, so that requests overlap: the judge does not accept a run in which none do.
const fakeWork = 2 * time.Millisecond

const fakeToken = fakeshop.Token

func startFakeShop(t *testing.T, s *fakeShop) string {
	t.Helper()
	claims := func(o api.Outcomes) map[api.Store]map[api.Hazard]api.Outcomes {
		return map[api.Store]map[api.Hazard]api.Outcomes{api.Redis: {api.Threads: o}}
	}
	var mu sync.Mutex
	shop := fakeshop.Shop{
		Modes: []api.Mode{
			{Name: "noop", Baseline: true, Available: true},
			{Name: "unsafe", Stores: []api.Store{api.Redis}, Claims: claims("O"), Available: true},
			{Name: "proud", Stores: []api.Store{api.Redis}, Claims: claims(api.Exact), Available: true},
			{Name: "lua-lock", Stores: []api.Store{api.Redis}, Claims: claims(api.Exact), Available: true},
			{Name: "etcd", Stores: []api.Store{api.Etcd}, Why: "etcd: i/o timeout", Down: true},
			{Name: "mutex-in-tx", Stores: []api.Store{api.SQL}, Why: "needs mysql"},
		},
		Broken: map[string]bool{"noop": !s.exact, "unsafe": !s.exact, "proud": !s.exact},
		Fail: func(http.ResponseWriter, *http.Request) bool {
			time.Sleep(fakeWork)
			if s.deducted != nil {
				mu.Lock()
				defer mu.Unlock()
				s.deducted()
			}
			return false
		},
	}
	return shop.Start(t)
}

// commandLine runs a command line and returns its exit code with what it printed.
func commandLine(ctx context.Context, cmd *cobra.Command, args ...string) (code int, out, errOut string) {
	var stdout, stderr bytes.Buffer
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(signed(cmd, append([]string{}, args...))) // nil would stand for those of this process
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	ran, err := cmd.ExecuteContextC(ctx)
	code = finish(ran, err, cli.Language(args, func(string) string { return "" }))
	return code, stdout.String(), stderr.String()
}

func TestLoadtestExitCodes(t *testing.T) {
	t.Parallel()
	small := []string{"--vus", "4", "--requests", "60", "--stock", "20"}
	tests := []struct {
		name string
		args []string
		code int
		want string // in what was printed
	}{
		{"exact", []string{"--mode", "lua-lock"}, cli.ExitOK, "confirmed: 1 of 1 claim "},
		{"broken as claimed", []string{"--mode", "unsafe"}, cli.ExitOK, "BROKEN O"},
		{"contradicted", []string{"--mode", "proud,lua-lock"}, cli.ExitFailed, "contradicted: proud claims exact"},
		{"all", []string{"--mode", "unsafe,lua-lock,noop,mutex-in-tx"}, cli.ExitOK, "skipped: mutex-in-tx: needs mysql"},
		{"in Chinese", []string{"--mode", "lua-lock", "--lang", "zh"}, cli.ExitOK, "吞吐量"},
		{"threshold kept", []string{"--mode", "lua-lock", "--threshold", "oversold==0", "--threshold", "p(99)<1h"},
			cli.ExitOK, ""},
		{"threshold crossed", []string{"--mode", "unsafe", "--threshold", "oversold==0"}, exitThreshold,
			"threshold crossed: unsafe: oversold==0"},
		{"half of three replicas", []string{"--mode", "lua-lock", "--replicas", "3"}, exitInconclusive,
			" --vus 4 --mode lua-lock --insist 4"},
		{"open loop", []string{"--mode", "lua-lock", "--stock", "5", "--rate", "2000", "--duration", "100ms"}, cli.ExitOK,
			"schedule lag"},

		{"no mode", nil, cli.ExitUsage, "--mode wants a mode"},
		{"unknown mode", []string{"--mode", "lualock"}, cli.ExitUsage, `did you mean "lua-lock"?`},
		{"unknown plan", []string{"--mode", "all", "--plan", "jmetre"}, cli.ExitUsage, "jmeter"},
		{"bad threshold", []string{"--mode", "all", "--threshold", "p(99)<50"}, cli.ExitUsage, "duration with its unit"},
		{"bad stages", []string{"--mode", "all", "--stages", "10s"}, cli.ExitUsage, "10s:100,30s:2000"},
		{"a backend is not configured", []string{"--mode", "mutex-in-tx"}, cli.ExitUsage,
			"nothing to run: mutex-in-tx: needs mysql"},
		{"a backend does not answer", []string{"--mode", "etcd"}, exitInconclusive,
			"nothing to run: etcd: etcd: i/o timeout"},
		{"one of the backends does not answer", []string{"--mode", "mutex-in-tx,etcd"}, exitInconclusive,
			"nothing to run: etcd: etcd: i/o timeout"},
		{"longer than the service waits", []string{"--mode", "lua-lock", "--wait", "30001ms"}, cli.ExitUsage,
			"--wait 30.001s: the service takes at most 30s"},
		{"as long as the service waits", []string{"--mode", "lua-lock", "--wait", "30s"}, cli.ExitOK, ""},
		{"more than the service sells", []string{"--mode", "lua-lock", "--quantity", "1000001"}, cli.ExitUsage,
			"--quantity 1000001: the service takes 1 to 1000000"},
		{"beyond the last product", []string{"--mode", "lua-lock", "--product", "9223372036854775807", "--products", "2"},
			cli.ExitUsage, "the last id must fit into 64 bits"},
		{"what fits nothing", []string{"--mode", "lua-lock", "--segments", "5"}, cli.ExitUsage, "knows no segments"},
		{"no token", []string{"--mode", "lua-lock", "--token", "wrong"}, cli.ExitFailed,
			"the one in SHOP_ADMIN_TOKEN or --token is another"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"--url", startFakeShop(t, &fakeShop{}), "--token", fakeToken}
			if !strings.Contains(strings.Join(tt.args, " "), "--rate") &&
				!strings.Contains(strings.Join(tt.args, " "), "--loops") {
				args = append(args, small...)
			}
			code, out, errOut := commandLine(t.Context(), newLoadtest("en"), append(args, tt.args...)...)
			if code != tt.code {
				t.Errorf("exit code %d, want %d\n%s%s", code, tt.code, out, errOut)
			}
			if !strings.Contains(out+errOut, tt.want) {
				t.Errorf("printed no %q:\n%s%s", tt.want, out, errOut)
			}
		})
	}
}

func TestLoadtestNobodyThere(t *testing.T) {
	code, _, errOut := commandLine(t.Context(), newRoot("en"), "loadtest", "--url", "http://127.0.0.1:1", "--mode", "all")
	const want = "shop: GET http://127.0.0.1:1/modes: dial tcp 127.0.0.1:1: connect: connection refused; is a " +
		"shop running there? 'shop up'"
	if code != cli.ExitFailed || !strings.HasPrefix(errOut, want) {
		t.Errorf("exit code %d with %q, want %d and %q", code, errOut, cli.ExitFailed, want)
	}
}

func TestLoadtestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sold := 0
	url := startFakeShop(t, &fakeShop{deducted: func() {
		if sold++; sold == 10 {
			cancel()
		}
	}})
	code, out, errOut := commandLine(ctx, newLoadtest("en"), "--url", url, "--token", fakeToken, "--mode",
		"lua-lock,unsafe",
		"--vus", "1", "--duration", "10m", "--stock", "1000000", "--details")
	if code != cli.ExitInterrupted {
		t.Errorf("exit code %d, want %d\n%s", code, cli.ExitInterrupted, errOut)
	}
	for _, want := range []string{"partial: interrupted", "interrupted: the figures are partial", "accepted"} {
		if !strings.Contains(out, want) {
			t.Errorf("partial report has no %q:\n%s", want, out)
		}
	}
}

// Every request is a line of the history. TestOutput has the forms of the result.
func TestLoadtestHistory(t *testing.T) {
	t.Parallel()
	url, history := startFakeShop(t, &fakeShop{}), filepath.Join(t.TempDir(), "history.jsonl")
	code, out, errOut := commandLine(t.Context(), newLoadtest("en"), "--url", url, "--token", fakeToken, "--mode",
		"lua-lock,unsafe", "--vus", "2",
		"--requests", "30", "--stock", "10", "-o", "csv", "--history", history)
	if code != cli.ExitOK || !strings.HasPrefix(out, "mode,store,plan,") || errOut != "" {
		t.Errorf("exit code %d, printed %.60q and %q; want %d and no progress on what is no terminal", code, out, errOut,
			cli.ExitOK)
	}
	lines, err := os.ReadFile(history)
	if n := bytes.Count(lines, []byte("\n")); err != nil || n != 60 {
		t.Errorf("history has %d lines, %v, want 60", n, err)
	}
}

// A service that answers everything with 200 can be described to the load test as to the lab: what its answers mean,
// its headers, how its stock is set before each run. Without that nothing is sent that would prove nothing.
func TestLoadtestForeign(t *testing.T) {
	var mu sync.Mutex
	stock, sent := 0, 0
	mux := http.NewServeMux()
	mux.HandleFunc("POST /buy", func(w http.ResponseWriter, r *http.Request) {
		sent++
		switch {
		case r.Header.Get("X-Shop") != "7":
			fmt.Fprint(w, `{"code":1}`)
		case stock == 0:
			fmt.Fprint(w, `{"code":409}`)
		default:
			stock--
			fmt.Fprint(w, `{"code":0}`)
		}
	})
	mux.HandleFunc("PUT /items/101/{stock}", func(_ http.ResponseWriter, r *http.Request) {
		stock, _ = strconv.Atoi(r.PathValue("stock"))
	})
	mux.HandleFunc("GET /items/101", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"data":{"stock":%d}}`, stock)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	defer server.Close()
	bodies := []string{"--ok-status", "200", "--ok-body", `"code":0`, "--refused", "200", "--refused-body", "409",
		"--declined-status", "200", "--declined-body", `"code":1`}
	reset := []string{"--reset-url", "PUT /items/{{product}}/{{stock}}"}
	read := []string{"--stock-url", "/items/{{product}}", "--stock-json-path", "data.stock"}
	header := []string{"--header", "X-Shop: 7"}
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
		sent bool
	}{
		{"nothing to sell", slices.Concat(bodies, header, read), cli.ExitUsage, "the stock of product 101 is 0", false},
		{"no such stock", slices.Concat(bodies, header, []string{"--stock-url", "/nothing"}), cli.ExitUsage,
			"404 page not found", false},
		{"twice", slices.Concat(bodies, header, reset, read, []string{"--repeat", "2", "--name", "theirs"}), cli.ExitOK,
			"seen: EXACT 2/2", true},
		{"every 200 is sold", slices.Concat(header, reset, read), exitInconclusive, "--ok-body and", true},
		{"without the header", slices.Concat(bodies, reset, read), exitInconclusive, "does not mean sold",
			true},
		{"its orders", slices.Concat(bodies, header, reset, read, []string{"--orders-url", "/items/{{product}}#/data/none"}),
			cli.ExitUsage, "no /data/none", false},
		{"it reserves", slices.Concat(bodies, header, read, []string{"--plan", "reserve"}), cli.ExitUsage,
			"--plan reserve", false},
		{"no database", slices.Concat(bodies, header, read, []string{"--reset-sql", "UPDATE"}), cli.ExitUsage, "--sql",
			false},
	} {
		stock, sent = 0, 0
		args := append([]string{"--url", server.URL, "--request", `POST /buy {"id":{{product}}}`, "--vus", "4", "--requests",
			"60", "--stock", "20", "--settle", "300ms"}, tt.args...)
		// the limit of wait_ms is not its own
		code, out, errOut := commandLine(t.Context(), newLoadtest("en"), append(args, "--wait", "40s")...)
		if code != tt.code || !strings.Contains(out+errOut, tt.want) || (sent > 0) != tt.sent ||
			strings.Contains(out, "confirmed") {
			t.Errorf("%s: exit code %d, want %d and %q; sent %d; and no claim\n%s%s", tt.name, code, tt.code, tt.want, sent, out,
				errOut)
		}
	}
}

func TestPlanFlags(t *testing.T) {
	five, _ := plan.Named("five")
	jmeter, _ := plan.Named("jmeter")
	reserve, _ := plan.Named("reserve")
	tests := []struct {
		name string
		args []string
		want func(p *plan.Plan)
		of   plan.Plan
	}{
		{"nothing given", nil, func(*plan.Plan) {}, plan.Plan{Wait: 3 * time.Second}},
		{"a named plan", []string{"--plan", "five"}, func(*plan.Plan) {}, five[0]},
		{"a seed", []string{"--plan", "five", "--seed", "7"}, func(p *plan.Plan) { p.Seed = 7 }, five[0]},
		{"another stock is another plan", []string{"--plan", "five", "--stock", "10"}, func(p *plan.Plan) {
			p.Stock, p.MustEnd = 10, nil
		}, five[0]},
		{"a wait that ends sooner", []string{"--plan", "five", "--wait", "0"}, func(p *plan.Plan) {
			p.Wait, p.MustEnd = 0, nil
		}, five[0]},
		{"a time-out that cuts off", []string{"--plan", "five", "--timeout", "4s"},
			func(p *plan.Plan) { p.Timeout, p.MustEnd = 4*time.Second, nil }, five[0]},
		{"a length replaces the length", []string{"--plan", "jmeter", "--duration", "2s"},
			func(p *plan.Plan) { p.Loops, p.Duration = 0, 2*time.Second }, jmeter[0]},
		{"the open loop replaces the closed", []string{"--plan", "five", "--rate", "10"},
			func(p *plan.Plan) { p.VUs, p.Loops, p.Burst, p.Rate, p.MustEnd = 0, 0, false, 10, nil }, five[0]},
		{"buyers who only pay", []string{"--plan", "reserve", "--cancels", "0", "--pays", "1", "--pays-late", "0",
			"--hold", "5s", "--stock", "90", "--per-buyer", "2"}, func(p *plan.Plan) {
			p.Stock = 90
			p.Reserving.Pays, p.Reserving.PaysLate, p.Reserving.Cancels, p.Reserving.For, p.Reserving.PerBuyer = 1, 0, 0,
				5*time.Second, 2
			p.Reserving.Scaled = false // the hold is given
		}, reserve[0]},
		{"buyers who do not wait", []string{"--plan", "reserve", "--rate", "50"},
			func(p *plan.Plan) { p.VUs, p.Rate = 0, 50 }, reserve[0]},
		{"stages", []string{"--stages", "1s:10,2s:20"}, func(p *plan.Plan) {
			p.Stages = []plan.Stage{{For: time.Second, Rate: 10}, {For: 2 * time.Second, Rate: 20}}
		}, plan.Plan{Wait: 3 * time.Second}},
		{"no waiting", []string{"--plan", "jmeter", "--wait", "0s"}, func(p *plan.Plan) { p.Wait = 0 }, jmeter[0]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var f planFlags
			cmd := &cobra.Command{}
			f.add(cmd.Flags(), "en")
			testkit.Must(t, cmd.ParseFlags(tt.args))
			got, err := f.plans()
			testkit.Must(t, err)
			want := tt.of
			tt.want(&want)
			testkit.Same(t, got, []plan.Plan{want.WithDefaults()}, "plans")
		})
	}
}

// A zero is not taken for the default, except where it says something by itself.
func TestZeroIsNotTheDefault(t *testing.T) {
	t.Parallel()
	meant := []string{"wait", "warmup", "retry", "zipf", "segments", "replicas", "insist", "sell-out", "pays", "pays-late",
		"cancels", "pay-from", "pay-to", "double-clicks", "buyers", "buyer-zipf", "per-buyer", "extends",
		"returns", "carts", "follow"}
	newLoadtest("en").Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains([]string{"int", "int64", "uint64", "float64", "duration"}, f.Value.Type()) {
			return
		}
		// With a second mistake after it, so that nothing is sent.
		code, _, errOut := commandLine(t.Context(), newLoadtest("en"), "--mode", "all", "--engine", "steam", "--"+f.Name, "0")
		refused := strings.Contains(errOut, "--"+f.Name+" 0") && strings.Contains(errOut, ": want more than 0")
		if want := !slices.Contains(meant, f.Name); code != cli.ExitUsage || refused != want ||
			!refused && !strings.Contains(errOut, "--engine") {
			t.Errorf("loadtest --%s 0: exit %d, %s; want it refused: %t", f.Name, code, errOut, want)
		}
		code, _, errOut = commandLine(t.Context(), newLoadtest("en"), "--mode", "all", "--"+f.Name+"=-1")
		if code != cli.ExitUsage || !strings.Contains(errOut, "--"+f.Name) {
			t.Errorf("loadtest --%s -1: exit %d, %s; want a usage error that names it", f.Name, code, errOut)
		}
	})
}
