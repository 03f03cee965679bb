package faultlab

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// sheet returns the page of a lab that played two cells. One of them was broken by two schedules, of which only the first has a story.
func sheet(t *testing.T, lang string, change func(*Result)) string {
	t.Helper()
	story := &Story{Initial: 10, Left: 9, Ordered: 2, Lines: []Line{
		{At: time.Millisecond, Actor: "A", Event: rig.Asked},
		{At: 2 * time.Millisecond, Actor: "A", Text: "redis: SET lock <script>alert('t0ken-of-mine')</script>"},
		{At: 3 * time.Millisecond, Actor: "A", Event: rig.Paused},
		{At: 4 * time.Millisecond, Actor: "B", Event: rig.Answered, Text: "ok"},
	}}
	a, b := at("GET"), at("SET")
	all := []Played{{Schedule: a, Outcome: "O", Story: story}, {Schedule: b, Outcome: "L"}, {Schedule: at("DEL"), Outcome: ".", Story: story}}
	c := sum(Cell{Mode: "m", Store: api.Redis, Fault: api.Pause, Claim: "O"}, all)
	r := &Result{
		Cells: []Cell{c, {Mode: "safe", Store: api.SQL, Fault: api.Pause, Claim: ".", Found: ".", Tried: 3}}, Told: witnesses(c, all),
		Servers: map[string]string{"redis": "redis-server 7.0.15"}, TTL: 600 * time.Millisecond, Schedules: 6, Took: time.Second,
	}
	if len(r.Told) != 2 {
		t.Errorf("%d schedules are kept, want the witnesses of the two letters", len(r.Told))
	}
	if change != nil {
		change(r)
	}
	var out strings.Builder
	o := PageOptions{Lang: lang, Version: "abc", Command: "bin/shop lab --mode 'm&n'", Made: time.Unix(0, 0), Secrets: []string{"t0ken-of-mine"}}
	if err := r.WritePage(&out, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The page tells the schedules of the broken cells, and nothing in it is loaded or run.
func TestSheet(t *testing.T) {
	t.Parallel()
	for _, lang := range []string{"en", "zh"} {
		text := sheet(t, lang, nil)
		root, err := html.Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		lanes := map[string]int{} // texts by the class of their cell
		for n := range root.Descendants() {
			if n.Data == "script" || n.Data == "img" || n.Data == "iframe" {
				t.Errorf("%s: there is a <%s>", lang, n.Data)
			}
			for _, a := range n.Attr {
				if a.Key == "class" && n.Data == "td" {
					lanes[a.Val]++
				}
				if a.Key == "src" || a.Key == "href" && a.Val != "data:," {
					t.Errorf("%s: <%s %s=%q>", lang, n.Data, a.Key, a.Val)
				}
			}
		}
		if lanes["client"] != 2 || lanes["lab"] != 1 {
			t.Errorf("%s: cells %v, want two of clients and one of the lab", lang, lanes)
		}
		for _, bad := range []string{"t0ken-of-mine", "<script", "http://", "https://", "%!"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s: the page has %q", lang, bad)
			}
		}
		for _, want := range []string{
			"m (redis), pause, A before redis: GET: O", "&lt;script&gt;", "SIGSTOP", "redis-server 7.0.15", "600ms", "git checkout abc",
			"bin/shop lab --mode &#39;m&amp;n&#39;", "OL (!)", ". = ", "L, which is not claimed",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the page has no %q:\n%s", lang, want, text)
			}
		}
		if strings.Contains(text, "redis: DEL") {
			t.Errorf("%s: the page tells a schedule that broke nothing", lang)
		}
	}
}

// A broken cell without stories names its schedules, and a foreign service is not called a mode.
func TestSheetWithoutStories(t *testing.T) {
	t.Parallel()
	text := sheet(t, "en", func(r *Result) { r.Told = nil })
	if !strings.Contains(text, "No story was recorded") || !strings.Contains(text, "A before redis: SET") {
		t.Errorf("the page does not name the schedules:\n%s", text)
	}
	text = sheet(t, "en", func(r *Result) { r.Serve = &rig.Foreign{}; r.Cells[0].Wrong = nil })
	if !strings.Contains(text, "Fault lab: your service") || !strings.Contains(text, "Of 2 faults, 1 breaks the service.") {
		t.Errorf("the page of a foreign service:\n%s", text)
	}
}

// The report on a foreign service says that nothing broke it only if every schedule proved something, and its page is green only then.
func TestUnprovenService(t *testing.T) {
	t.Parallel()
	held, lost := played("GET", "."), Played{Schedule: at("SET"), Outcome: Failed, Why: "lost"}
	for name, tt := range map[string]struct {
		played       []Played
		banner, text string
	}{
		"proved":       {[]Played{held}, `good"><p><strong>Nothing broke it.<`, "\nNothing broke it: no schedule oversold"},
		"in part":      {[]Played{held, lost}, `warm"><p><strong>Nothing broke it, but some schedules proved nothing.<`, "\nNothing broke it, but some schedules proved nothing.\n"},
		"not at all":   {[]Played{lost}, `warm"><p><strong>No schedule could be judged.<`, "\nNo schedule could be judged.\n"},
		"and broke it": {[]Played{lost, played("GET", "O")}, `bad"><p><strong>Of 1 fault, 1 breaks the service.<`, "\nFaults that break the service"},
	} {
		r := &Result{Serve: &rig.Foreign{}, Took: time.Second}
		r.add(&lab{}, sum(Cell{Mode: rig.ServiceName, Fault: api.Pause, Claim: Unclaimed}, tt.played), tt.played)
		var page, text strings.Builder
		if err := errors.Join(r.WritePage(&page, PageOptions{Lang: "en"}), r.WriteServe(&text, "en")); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(page.String(), tt.banner) {
			t.Errorf("%s: the page has no %q:\n%s", name, tt.banner, page.String())
		}
		if !strings.Contains(text.String(), tt.text) {
			t.Errorf("%s: the text has no %q:\n%s", name, tt.text, text.String())
		}
	}
}
