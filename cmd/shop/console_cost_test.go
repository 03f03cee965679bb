package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"lastitem/console"
	"lastitem/loadtest"
	"lastitem/stack"
	"lastitem/testkit"
)

// envConsoleCost is how many rounds TestConsoleCost makes; "" = it is skipped, since it wants the machine for itself.
const envConsoleCost = "SHOP_TEST_CONSOLE_COST"

const (
	pageLimit  = 0.15 // of a core, at ten updates a second
	watchLimit = 0.05 // of a run's throughput
)

// TestConsoleCost measures what the page costs the browser, and what being watched costs a run: make console-cost.
func TestConsoleCost(t *testing.T) {
	rounds, err := strconv.Atoi(testkit.Asked(t, envConsoleCost, "make console-cost"))
	if err != nil || rounds < 1 {
		t.Fatalf("%s is %q, want a number of rounds", envConsoleCost, os.Getenv(envConsoleCost))
	}
	running := startStack(t, stack.Options{Replicas: 3, Only: []string{}, Token: "t0ken",
		Env: []string{"SHOP_EVENTS=true"}})
	awaitModes(t.Context(), running)
	d := driverOf(running, 0, nil)
	c, err := newConsole(d, t.Logf, nil)
	testkit.Must(t, err)
	l := testkit.Listen(t)
	page := &httptest.Server{Listener: l, Config: &http.Server{Handler: c, ReadHeaderTimeout: time.Minute}}
	page.Start()
	t.Cleanup(page.Close)
	t.Cleanup(c.Close) // the streams first
	p := playing{address: page.URL + "/console/#token=t0ken", base: page.URL, token: "t0ken"}
	t.Run("watching", func(t *testing.T) {
		w := watchCost{p: p, d: d, replicas: running.Replicas, rounds: rounds}
		// Each run takes a second or two. In unsafe, every deduction has a critical section.
		for _, spec := range []console.Spec{costSpec("lua-lock", 2_000), costSpec("redis-lua", 15_000),
			costSpec("unsafe", 15_000)} {
			t.Run(spec.Modes[0], func(t *testing.T) { w.measure(t, spec) })
		}
	})
	t.Run("page", func(t *testing.T) { testPageCost(t, startPlay(t, program(t))) })
}

// costSpec is the load of a round: long enough that its beginning and its end do not matter.
func costSpec(mode string, stock int64) console.Spec {
	return console.Spec{Modes: []string{mode}, Replicas: 3, Clients: 40, Stock: stock, Lang: "en"}
}

// watchCost compares, in turn, a run that nobody watches with one of the console that a reader follows, without a
// browser: the replicas send their events, the console counts and sends frames.
type watchCost struct {
	p        playing
	d        *playDriver
	replicas []stack.Service
	rounds   int
}

// costs has a number for each run, of the runs alone (false) and of the watched ones (true).
type costs struct{ rate, replicas, console map[bool][]float64 }

// measure compares the throughput, and the processor time of the replicas and of this process, which is the console and
// the load generator. The processor time is only logged: it is the steadier number where other work disturbs the
// throughput.
func (w watchCost) measure(t *testing.T, spec console.Spec) {
	t.Helper()
	mode, c := spec.Modes[0], costs{map[bool][]float64{}, map[bool][]float64{}, map[bool][]float64{}}
	for i := range 2 * w.rounds {
		watched := (i%2 == 1) != (i%4 >= 2) // ABBA
		replicas, self := w.busy(t), busy(t, os.Getpid())
		c.rate[watched] = append(c.rate[watched], w.run(t, spec, watched))
		per := 1e6 / float64(spec.Stock) // microseconds per unit sold
		c.replicas[watched] = append(c.replicas[watched], per*(w.busy(t)-replicas))
		c.console[watched] = append(c.console[watched], per*(busy(t, os.Getpid())-self))
	}
	throughput, processors := make([]float64, w.rounds), make([]float64, w.rounds)
	for i := range w.rounds { // a run beside its neighbour: what else happens on the machine changes more slowly
		throughput[i] = 1 - c.rate[true][i]/c.rate[false][i]
		processors[i] = (c.replicas[true][i]+c.console[true][i])/(c.replicas[false][i]+c.console[false][i]) - 1
	}
	t.Logf("%s: accepted per second alone %.0f, watched %.0f; processor time per unit sold of the replicas %.1f and "+
		"%.1f us, of the console and the load generator %.1f and %.1f us (medians of %d pairs)",
		mode, median(c.rate[false]), median(c.rate[true]), median(c.replicas[false]), median(c.replicas[true]),
		median(c.console[false]), median(c.console[true]), w.rounds)
	for what, shares := range map[string][]float64{"throughput": throughput, "processor time": processors} {
		slices.Sort(shares)
		t.Logf("%s: watching costs %.1f %% of the %s (median; quartiles %.1f and %.1f)",
			mode, 100*median(shares), what, 100*shares[w.rounds/4], 100*shares[(3*w.rounds-1)/4])
	}
	if cost := median(throughput); cost > watchLimit {
		t.Errorf("%s: watching costs %.1f %% of the throughput, want at most %.0f %%", mode, 100*cost, 100*watchLimit)
	}
}

// run makes a run, and returns how many requests it accepted per second.
func (w watchCost) run(t *testing.T, spec console.Spec, watched bool) (rate float64) {
	t.Helper()
	if watched {
		return w.p.watchedRate(t, spec.Modes[0], spec.Stock)
	}
	err := w.d.Drive(t.Context(), spec, func(s console.Step) {
		if r, ok := s.Result.(*loadtest.Result); ok && s.Ended {
			rate = r.AcceptedPerSecond
		}
	})
	if err != nil || rate == 0 {
		t.Fatalf("%s: %.0f accepted per second, %v", spec.Modes[0], rate, err)
	}
	return rate
}

// busy returns the processor time that the replicas have used, in seconds.
func (w watchCost) busy(t *testing.T) (sum float64) {
	t.Helper()
	for _, r := range w.replicas {
		sum += busy(t, r.PID)
	}
	return sum
}

// busy returns the processor time that a process has used, in seconds: utime and stime of proc_pid_stat(5), in ticks of
// 10 ms.
func busy(t *testing.T, pid int) float64 {
	t.Helper()
	text := testkit.Read(t, fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// watchedRate makes a run by the console's API while its events are read, and returns its throughput.
func (p playing) watchedRate(t *testing.T, mode string, stock int64) float64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	frames, ended := p.read(t, ctx)
	p.start(t, mode, 40, stock)
	select {
	case rate := <-ended:
		if frames.Load() < 3 {
			t.Errorf("%s: %d frames were read", mode, frames.Load())
		}
		return rate
	case <-time.After(3 * time.Minute):
		t.Fatalf("the run of %s has not ended", mode)
		return 0
	}
}

// start begins a run.
func (p playing) start(t *testing.T, mode string, clients int, stock int64) {
	t.Helper()
	body := fmt.Sprintf(`{"modes":[%q],"replicas":%d,"clients":%d,"stock":%d,"lang":"en"}`, mode, cmp.Or(p.replicas, 3),
		clients, stock)
	if res := p.call(t, t.Context(), "POST", "runs", body); res.StatusCode != http.StatusAccepted {
		t.Fatalf("POST runs of %s = %s", mode, res.Status)
	}
}

// call sends a request to the console's API.
func (p playing) call(t *testing.T, ctx context.Context, method, path, body string) *http.Response { //nolint:revive // t comes first in helpers
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, p.base+"/console/api/"+path, strings.NewReader(body))
	testkit.Must(t, err)
	req.Header.Set("Authorization", "Bearer "+p.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// read follows the console's events: it counts the frames, and sends the throughput of a run that ends.
func (p playing) read(t *testing.T, ctx context.Context) (frames *atomic.Int64, ended <-chan float64) { //nolint:revive // likewise
	t.Helper()
	res := p.call(t, ctx, "GET", "events", "")
	frames, done := new(atomic.Int64), make(chan float64, 1)
	go func() {
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(make([]byte, 64<<10), 16<<20)
		kind := ""
		for lines.Scan() {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				kind = name
				if kind == "frame" {
					frames.Add(1)
				}
			}
			if _, after, ok := strings.Cut(lines.Text(), `"accepted_per_second":`); ok && kind == "end" {
				number, _, _ := strings.Cut(after, ",")
				rate, _ := strconv.ParseFloat(number, 64)
				done <- rate
				return
			}
		}
	}()
	return frames, done
}

// testPageCost measures the share of a core that the page's main thread takes while a run sends it ten frames a second.
func testPageCost(t *testing.T, p playing) {
	b := openTab(t, p.base)
	counting := `window.frames10 = 0;
		window.EventSource = class extends EventSource {
			constructor(...a) { super(...a); this.addEventListener("frame", () => { window.frames10++; }); }
		};`
	for _, err := range []error{
		called(chromedp.Call(b.ctx, performance.Enable,
			performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})),
		called(chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument,
			page.AddScriptToEvaluateOnNewDocumentParams{Source: counting})),
	} {
		testkit.Must(t, err)
	}
	b.look(1440, "light")
	b.do("open", chromedp.Navigate(strings.Replace(p.address, "#", "?lang=en#", 1)))
	b.wait(`!!document.querySelector('.go')`)
	for _, mode := range []string{"unsafe", "lua-lock"} {
		p.start(t, mode, 40, 100_000)
		b.wait(fmt.Sprintf(`window.frames10 > %d`, eval[int](b, `window.frames10`)+5))
		busy, frames, begun := taskDuration(b), eval[int](b, `window.frames10`), time.Now()
		time.Sleep(8 * time.Second)
		took := time.Since(begun).Seconds()
		share, rate := (taskDuration(b)-busy)/took, float64(eval[int](b, `window.frames10`)-frames)/took
		p.call(t, t.Context(), "DELETE", "runs", "")
		t.Logf("%s: the page takes %.1f %% of a core at %.1f frames a second", mode, 100*share, rate)
		if share > pageLimit {
			t.Errorf("%s: the page takes %.1f %% of a core, want at most %.0f %%", mode, 100*share, 100*pageLimit)
		}
		if rate < 8 {
			t.Errorf("%s: %.1f frames a second, want about ten", mode, rate)
		}
	}
}

// taskDuration is the time that the page's main thread has worked, in seconds.
func taskDuration(b *tab) float64 {
	b.t.Helper()
	all, err := chromedp.Call(b.ctx, performance.GetMetrics, struct{}{})
	testkit.Must(b.t, err)
	for _, m := range all.Metrics {
		if m.Name == "TaskDuration" {
			return m.Value
		}
	}
	b.t.Fatal("the browser tells no TaskDuration")
	return 0
}
