package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"lastitem/contract/api"
	"lastitem/testkit"
)

// sectionOf returns a deduction that ends with its critical section. Times are microseconds after start.
func sectionOf(request, key string, begin, end int64) api.Finished {
	return api.Finished{
		Request: request, Mode: "m", ProductID: 101, At: start + end,
		Section: &api.Section{Key: key, Begin: start + begin, End: start + end},
	}
}

// events returns the event of a replica about these deductions.
func events(replica string, all ...api.Finished) api.Events {
	e := api.Events{Replica: replica}
	for _, f := range all {
		a := api.Answers{Mode: f.Mode, ProductID: f.ProductID, Code: f.Code, At: f.At, Count: 1, Remaining: f.Remaining}
		if s := f.Section; s != nil {
			if s.Key != "" {
				a.Locks = 1
			}
			number := int64(0)
			if _, digits, ok := strings.Cut(f.Request, "-"); ok {
				number, _ = strconv.ParseInt(digits, 36, 64)
			}
			e.Sections = append(e.Sections, api.Sections{
				Mode: f.Mode, ProductID: f.ProductID, Key: s.Key, From: s.Begin, Rows: []int64{number, 0, s.End - s.Begin},
			})
		}
		e.Answers = append(e.Answers, a)
	}
	return e
}

// barOf returns the bar that a picture makes of a deduction.
func barOf(f api.Finished) *bar {
	replica, _, _ := strings.Cut(f.Request, "-")
	p := newPicture(f.Mode, f.ProductID, []string{replica})
	p.begin(start)
	p.add(events(replica, f))
	return p.new[0]
}

const start = int64(1_700_000_000_000_000)

func TestOverlaps(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		sections []api.Finished // in the order of their arrival
		found    int64
		pairs    int
	}{
		"one after the other":     {[]api.Finished{sectionOf("1-a", "k", 0, 10), sectionOf("2-a", "k", 10, 20)}, 0, 0},
		"one within the other":    {[]api.Finished{sectionOf("1-a", "k", 0, 100), sectionOf("2-a", "k", 10, 20)}, 2, 1},
		"the later arrives first": {[]api.Finished{sectionOf("2-a", "k", 10, 20), sectionOf("1-a", "k", 0, 100)}, 2, 1},
		"other keys":              {[]api.Finished{sectionOf("1-a", "k", 0, 100), sectionOf("2-a", "l", 10, 20)}, 0, 0},
		"a long one and many": {[]api.Finished{sectionOf("1-a", "", 0, 100), sectionOf("2-a", "", 10, 20),
			sectionOf("2-b", "", 30, 40), sectionOf("2-c", "", 120, 140)}, 3, 2},
		"the long one comes last": {[]api.Finished{sectionOf("2-a", "", 10, 20), sectionOf("2-b", "", 30, 40),
			sectionOf("2-c", "", 120, 140), sectionOf("1-a", "", 0, 100)}, 3, 2},
		"three at once": {[]api.Finished{sectionOf("1-a", "", 0, 30), sectionOf("2-a", "", 10, 40),
			sectionOf("3-a", "", 20, 50)}, 3, 3},
		"a section of no length":      {[]api.Finished{sectionOf("1-a", "k", 0, 100), sectionOf("2-a", "k", 50, 50)}, 0, 0},
		"the same request once again": {[]api.Finished{sectionOf("1-a", "k", 0, 100), sectionOf("1-a", "k", 50, 60)}, 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOverlaps()
			for _, f := range tt.sections {
				o.add(barOf(f))
			}
			if o.sections != int64(len(tt.sections)) || o.found != tt.found || len(o.pairs) != tt.pairs {
				t.Errorf("%d of %d sections overlap, %d pairs; want %d, %d", o.found, o.sections, len(o.pairs), tt.found, tt.pairs)
			}
		})
	}
}

// The overlaps agree with a plain comparison of all pairs, even if sections arrive late.
func TestOverlapsAgainstAllPairs(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		x := seed*2654435761 + 1
		random := func(n int64) int64 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			return int64(x % uint64(n))
		}
		o := newOverlaps()
		var bars []*bar
		for i := range 400 {
			begin := int64(i)*5 + random(200)
			b := &bar{key: fmt.Sprint(random(2)), number: int64(i), begin: begin, end: begin + random(60)}
			bars = append(bars, b)
			o.add(b)
		}
		want := int64(0)
		for i, a := range bars {
			for j, b := range bars {
				if i != j && a.key == b.key && min(a.end, b.end) > max(a.begin, b.begin) {
					want++
					break
				}
			}
		}
		if o.found != want {
			t.Errorf("seed %d: %d sections overlap, want %d", seed, o.found, want)
		}
	}
}

// A long run needs no more memory: the bins grow wider, and only a few sections are kept for comparison.
func TestPictureIsBounded(t *testing.T) {
	t.Parallel()
	p := newPicture("m", 101, []string{"1"})
	p.begin(start)
	const n = 50_000
	for i := range int64(n) {
		p.add(events("1", sectionOf("1-"+strconv.FormatInt(i, 36), "k", i*10_000, i*10_000+5)))
		if i%1000 == 0 {
			p.frame()
		}
	}
	p.frame()
	f := p.whole()
	accepted := int64(0)
	for _, b := range f.Bins {
		accepted += b.accepted
	}
	if len(f.Bins) > maxBins || accepted != n || f.Sections != n || f.Overlaps != 0 {
		t.Errorf("%d bins of %d ms with %d answers, %d sections, %d overlaps; want at most %d, %d, %d, 0", len(f.Bins),
			f.Width, accepted, f.Sections, f.Overlaps, maxBins, n, n)
	}
	if len(f.Bars) > keptBars || len(p.overlaps.recent["k"]) > keepBars {
		t.Errorf("%d bars are kept, and %d compared", len(f.Bars), len(p.overlaps.recent["k"]))
	}
}

func TestPictureTakesOnlyItsRun(t *testing.T) {
	t.Parallel()
	p := newPicture("m", 101, []string{"1", "2"})
	p.add(events("1", sectionOf("1-a", "", 0, 10))) // no load has begun
	p.begin(start)
	warm, other, early := sectionOf("1-b", "", 5000, 5010), sectionOf("1-c", "", 5000, 5010),
		sectionOf("1-d", "", -50, -10)
	warm.ProductID, other.Mode = 900_000_001, "other"
	e := events("2", warm, other, early, sectionOf("2-a", "k", 10_000, 10_010))
	e.LeftOut = 3
	p.add(e)
	refused := sectionOf("3-a", "", 0, 0)
	refused.Code, refused.Section, refused.At = api.SoldOut, nil, start+30_000
	held := int64(6)
	p.add(events("3", refused))
	p.add(api.Events{Replica: "3", Answers: []api.Answers{
		{Mode: "m", ProductID: 101, At: start + 20_000, Count: 7},
		{Mode: "m", ProductID: 101, At: start + 20_000, Count: 9, Held: true, Remaining: &held},
		{Mode: "m", ProductID: 101, At: start + 20_000, Count: 1, End: "confirmed"},
		{Mode: "m", ProductID: 101, At: start + 20_000, Count: 4, End: "cancelled"},
		{Mode: "m", ProductID: 101, At: start + 20_000, Count: 5, End: "void"},
		{Mode: "m", ProductID: 101, At: start + 20_000, Code: api.OutcomeUnknown, Count: 2},
		{Mode: "m", ProductID: 101, At: start + 20_000, Code: api.LockBusy, Count: 3},
	}})
	batch := api.Batch{Mode: "m", ProductID: 101, Read: start + 41_000, Committed: start + 43_000, Ended: start + 44_000,
		Count: 3, Age: 12_000, Oldest: 9000, Tickets: []api.TicketLife{{ID: "t", Won: start + 35_000, Replica: "2",
			State: "sold", Deliveries: 1}}}
	lateBatch, otherBatch := batch, batch
	lateBatch.Count, lateBatch.Age, lateBatch.Tickets = 1, 4000, nil
	otherBatch.ProductID = 102
	p.add(api.Events{Replica: "1", Batches: []api.Batch{batch, otherBatch, lateBatch}})
	f, ok := p.frame()
	if !ok || f.Sections != 1 || f.LeftOut != 3 || len(f.Lanes) != 3 || len(f.Bars) != 3 || f.Bars[0].lane != 1 {
		t.Errorf("frame = %+v, want one section on the lane of replica 2, three left out, three lanes", f)
	}
	text, err := json.Marshal(f)
	testkit.Must(t, err)
	want := `{"lanes":["1","2","3"],"width":20,"from":0,"bins":[[1,0,0,null,0,0,0],[8,4,2,6,null,null,null,4,0,5],` +
		`[0,0,0,null,null,null,null,0,0,0,4,4000,9000]],"bars":[[1,"k",10000,10010,0,"2-a"],` +
		`[0,"",41000,44000,0,"1-0",43000,[[1,"t",35000,"sold",1]]],[0,"",41000,44000,0,"1-0",43000,[]]],` +
		`"pairs":[],"sections":1,"overlaps":0,"left_out":3,"marks":[]}`
	if string(text) != want {
		t.Errorf("frame\n%s, want\n%s", text, want)
	}
	if _, ok := p.frame(); ok {
		t.Error("a second frame, though nothing has changed")
	}
}

// The stock at the end of a bin is what the last deduction left, in whatever order the replicas report.
func TestStockAtTheEndOfABin(t *testing.T) {
	t.Parallel()
	type left struct{ at, stock int64 } // at in microseconds
	for _, test := range []struct {
		name  string
		heard []left
		want  int64
	}{
		{"in order", []left{{0, 9}, {10_000, 4}}, 4},
		{"the later is heard first", []left{{10_000, 4}, {0, 9}}, 4},
		{"the stock rises", []left{{0, 4}, {10_000, 9}}, 9},
		{"the stock rises, the later is heard first", []left{{10_000, 9}, {0, 4}}, 9},
		{"at about the same time", []left{{1000, 4}, {0, 9}}, 4},
		{"at about the same time, in another order", []left{{1000, 9}, {0, 4}}, 4},
	} {
		// beyond the bins that there may be, so that they are merged
		for _, offset := range []int64{0, (maxBins + 1) * 20_000} {
			p := newPicture("m", 101, []string{"1", "2"})
			p.begin(start)
			for i, l := range test.heard {
				p.add(api.Events{Replica: strconv.Itoa(i + 1), Answers: []api.Answers{{Mode: "m", ProductID: 101, At: start + l.at,
					Count: 1, Remaining: &l.stock}}})
			}
			p.add(api.Events{Replica: "1", Answers: []api.Answers{{Mode: "m", ProductID: 101, At: start + offset,
				Code: api.SoldOut, Count: 1}}})
			f, _ := p.frame()
			if got := f.Bins[0].remaining; got == nil || *got != test.want {
				t.Errorf("%s, %d more: the first bin ends with %v, want %d", test.name, offset, *got, test.want)
			}
		}
	}
}

// A browser that applies all frames has the same picture as the console: after pauses, with late arrivals, and when the
// bins grow wider.
func TestFramesAddUp(t *testing.T) {
	t.Parallel()
	p := newPicture("m", 101, []string{"1"})
	p.begin(start)
	var bins []bin // as model.js keeps them
	width := int64(binWidth)
	for i, at := range []int64{5, 10, 300, 310, 305, 2000, 290, 40_000, 39_000, 70_000} { // milliseconds
		p.add(events("1", sectionOf("1-"+strconv.Itoa(i), "k", at*1000, at*1000+5)))
		f, ok := p.frame()
		if !ok {
			t.Fatal("no frame, though something has changed")
		}
		if f.Width != width {
			bins, width = nil, f.Width
		}
		if f.From > len(bins) {
			t.Fatalf("a frame from bin %d on, and the browser has %d", f.From, len(bins))
		}
		bins = append(bins[:f.From:f.From], f.Bins...)
		accepted := int64(0)
		for _, b := range bins {
			accepted += b.accepted
		}
		if want := int64(i) + 1; accepted != want {
			t.Errorf("after %d ms the browser has %d sales, want %d", at, accepted, want)
		}
	}
}

// A frame takes its bars from all replicas, however many sections the first one reports.
func TestFrameIsShared(t *testing.T) {
	t.Parallel()
	p := newPicture("m", 101, []string{"1", "2"})
	p.begin(start)
	all := make([]api.Finished, 2*frameBars)
	for i := range all {
		all[i] = sectionOf("1-"+strconv.FormatInt(int64(i), 36), "k", int64(i)*10, int64(i)*10+5)
	}
	for range 2 { // each frame starts its shares from zero
		p.add(events("1", all...))
		p.add(events("2", sectionOf("2-a", "k", 20, 25)))
		f, _ := p.frame()
		if n := len(f.Bars); n != frameBars/2+1 || f.Bars[n-1].lane != 1 {
			t.Errorf("%d bars, want %d of the first replica and one of the second", n, frameBars/2)
		}
	}
}

// fakeStepper plays every schedule of the lesson "l".
type fakeStepper struct{}

func (fakeStepper) Lessons() json.RawMessage { return json.RawMessage(`["l"]`) }

func (fakeStepper) Close() error { return nil }

func (fakeStepper) Play(_ context.Context, lesson, moves string) (json.RawMessage, error) {
	switch lesson {
	case "l":
		return json.Marshal(map[string]string{"moves": moves})
	case "broken":
		return nil, errors.New("no redis-server")
	}
	return nil, fs.ErrNotExist
}

// The routes of the Step page need the same session as the other controls.
func TestStep(t *testing.T) {
	t.Parallel()
	serve := func(s Stepper) *httptest.Server {
		c := New(Options{Token: token, Files: fstest.MapFS{}, Stepper: s}, &fakeDriver{})
		t.Cleanup(c.Close)
		server := testkit.Serve(t, c)
		return server
	}
	with, without := serve(fakeStepper{}), serve(nil)
	for name, tt := range map[string]struct {
		at                         *httptest.Server
		method, path, body, header string
		want                       int
		says                       string
	}{
		"lessons":          {with, "GET", "lessons", "", "", 200, `["l"]`},
		"a schedule":       {with, "POST", "step", `{"lesson":"l","moves":"ab"}`, "", 200, `{"moves":"ab"}`},
		"no such lesson":   {with, "POST", "step", `{"lesson":"m"}`, "", 404, "not found"},
		"no servers":       {with, "POST", "step", `{"lesson":"broken"}`, "", 502, "no redis-server"},
		"an unknown field": {with, "POST", "step", `{"lesson":"l","to":"x"}`, "", 400, "unknown field"},
		"a wrong token":    {with, "POST", "step", `{"lesson":"l"}`, "Authorization: Bearer x", 401, "no session"},
		"a foreign page": {with, "POST", "step", `{"lesson":"l"}`, "Origin: http://elsewhere.example", 403,
			"another origin"},
		"no proxies":        {without, "POST", "step", `{"lesson":"l"}`, "", 404, "local stack"},
		"here":              {with, "GET", "state", "", "", 200, `"steps":true`},
		"elsewhere":         {without, "GET", "state", "", "", 200, `"steps":false`},
		"lessons elsewhere": {without, "GET", "lessons", "", "", 404, "local stack"},
	} {
		headers := slices.Clone(asJSON)
		if key, value, ok := strings.Cut(tt.header, ": "); ok {
			headers = append(headers, key, value)
		}
		if status, body, _ := ask(t, tt.at, tt.method, "/console/api/"+tt.path, tt.body, headers...); status != tt.want ||
			!strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %s, want %d and %q", name, status, body, tt.want, tt.says)
		}
	}
}
