package tell

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"lastitem/contract/api"
	"lastitem/faultlab"
	"lastitem/faultlab/rig"
	"lastitem/say/text"
	"lastitem/target"
	"lastitem/testkit"
)

// sheet returns the page of a lab that played two cells. One of them was broken by two schedules, of which only the
// first has a story.
func sheet(t *testing.T, lang string, change func(*faultlab.Result)) string {
	t.Helper()
	story := &faultlab.Story{Initial: 10, Left: 9, Ordered: 2, Lines: []faultlab.Line{
		{At: time.Millisecond, Actor: "A", Event: rig.Asked},
		{At: 2 * time.Millisecond, Actor: "A", Text: "redis: SET lock <script>alert('t0ken-of-mine')</script>"},
		{At: 3 * time.Millisecond, Actor: "A", Event: rig.Paused},
		{At: 4 * time.Millisecond, Actor: "B", Event: rig.Answered, Text: "ok"},
	}}
	a, b := at("GET"), at("SET")
	all := []faultlab.Played{{Schedule: a, Outcome: "O", Story: story}, {Schedule: b, Outcome: "L"}}
	c := faultlab.Cell{Mode: "m", Store: api.Redis, Fault: api.Pause, Claim: "O", Found: "OL", Tried: 3,
		Witnesses: map[string]faultlab.Schedule{"O": a, "L": b},
		Wrong:     []string{"found L, which is not claimed: " + b.String()}}
	r := &faultlab.Result{
		Cells:   []faultlab.Cell{c, {Mode: "safe", Store: api.SQL, Fault: api.Pause, Claim: ".", Found: ".", Tried: 3}},
		Told:    all,
		Servers: map[string]string{"redis": "redis-server 7.0.15"}, TTL: 600 * time.Millisecond, Schedules: 6,
		Took: time.Second,
	}
	if change != nil {
		change(r)
	}
	var out strings.Builder
	o := PageOptions{Lang: lang, Version: "abc", Command: "bin/shop lab --mode 'm&n'", Made: time.Unix(0, 0),
		Secrets: []string{"t0ken-of-mine"}}
	testkit.Must(t, Page(&out, r, o))
	return out.String()
}

// The page tells the schedules of the broken cells, and nothing in it is loaded or run.
func TestSheet(t *testing.T) {
	t.Parallel()
	for _, lang := range []string{"en", "zh"} {
		said := sheet(t, lang, nil)
		root, err := html.Parse(strings.NewReader(said))
		testkit.Must(t, err)
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
			if strings.Contains(said, bad) {
				t.Errorf("%s: the page has %q", lang, bad)
			}
		}
		for _, want := range []string{
			"m (redis), pause, A before redis: GET: O", "&lt;script&gt;", "SIGSTOP", "redis-server 7.0.15", "600ms",
			"git checkout abc",
			"bin/shop lab --mode &#39;m&amp;n&#39;", "OL (!) · 3", " · 3</td>", "L, which is not claimed",
		} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: the page has no %q:\n%s", lang, want, said)
			}
		}
	}
}

// A broken cell without stories names its schedules, and a foreign service is not called a mode.
func TestSheetWithoutStories(t *testing.T) {
	t.Parallel()
	said := sheet(t, "en", func(r *faultlab.Result) { r.Told = nil })
	if !strings.Contains(said, "No story was recorded") || !strings.Contains(said, "A before redis: SET") {
		t.Errorf("the page does not name the schedules:\n%s", said)
	}
	said = sheet(t, "en", func(r *faultlab.Result) { r.Serve = &target.Foreign{}; r.Cells[0].Wrong = nil })
	if !strings.Contains(said, "Fault lab: your service") || !strings.Contains(said,
		"Of 2 faults, 1 breaks the service.") {
		t.Errorf("the page of a foreign service:\n%s", said)
	}
}

// The report on a foreign service says that nothing broke it only if every schedule proved something, and its page is
// green only then.
func TestUnprovenService(t *testing.T) {
	t.Parallel()
	cell := faultlab.Cell{Mode: target.ServiceName, Fault: api.Pause, Claim: faultlab.Unclaimed}
	held, lost, unjudged, broken := cell, cell, cell, cell
	held.Found, lost.Found, broken.Found = ".", ".", "O"
	lost.Wrong, unjudged.Wrong, broken.Wrong = []string{"lost"}, []string{"lost"}, []string{"lost"}
	broken.Witnesses = map[string]faultlab.Schedule{"O": at("GET")}
	for name, tt := range map[string]struct {
		cell         faultlab.Cell
		judged       int
		banner, said string
	}{
		"proved": {held, 1, `good"><p><strong>Nothing that was played broke it: pause.<`,
			"\nNothing that was played broke it: pause.\n"},
		"in part": {lost, 1, `warm"><p><strong>Nothing broke it, but some schedules proved nothing.<`,
			"\nNothing broke it, but some schedules proved nothing.\n"},
		"not at all": {unjudged, 0, `warm"><p><strong>No schedule could be judged.<`,
			"\nNo schedule could be judged.\n"},
		"and broke it": {broken, 1, `bad"><p><strong>Of 1 fault, 1 breaks the service.<`,
			"\nFaults that break the service"},
	} {
		r := &faultlab.Result{Serve: &target.Foreign{}, Took: time.Second, Cells: []faultlab.Cell{tt.cell}, Judged: tt.judged}
		if page, said := reported(t, r); !strings.Contains(page, tt.banner) || !strings.Contains(said, tt.said) {
			t.Errorf("%s: the page has no %q, or the text no %q:\n%s\n%s", name, tt.banner, tt.said, page, said)
		}
	}
}

// A fault that was not played at every position stands with its reason in every form, no all-clear names it, and the
// page is not green. A foreign service is told for how long others were kept out.
func TestUntested(t *testing.T) {
	t.Parallel()
	r := &faultlab.Result{Serve: &target.Foreign{}, Took: time.Second, Judged: 2, Cells: []faultlab.Cell{
		{Fault: api.Threads, Found: faultlab.Untested, Untested: text.Plain("CALL buy(?) has an inside")},
		{Fault: api.Crash, Found: api.Exact},
		{Mode: "service", Fault: api.Pause, Found: api.Exact, BlockedFor: 2 * time.Second},
	}, NotPlayed: []faultlab.Gap{
		{Faults: []api.Hazard{api.Threads}, Why: text.Plain("CALL buy(?) has an inside")},
		{Faults: []api.Hazard{api.Pause, api.Slow}, What: text.Plain("with two held"), Why: text.Plain("nobody asked")},
	}}
	page, said := reported(t, r)
	var md strings.Builder
	data, err := json.Marshal(r)
	testkit.Must(t, errors.Join(err, Markdown(&md, r, "en")))
	last := "Not played: threads: CALL buy(?) has an inside."
	also := "Not played: pause, slow with two held: nobody asked."
	for form, has := range map[string]string{"html": html.UnescapeString(page), "text": said, "markdown": md.String()} {
		for _, want := range []string{last, also, "Nothing that was played broke it: crash, pause.",
			"While A stood still, everybody else was kept out for (longest)", "2s"} {
			if !strings.Contains(has, want) {
				t.Errorf("%s has no %q:\n%s", form, want, has)
			}
		}
		if strings.Contains(has, `banner good`) {
			t.Errorf("%s gives an all-clear:\n%s", form, has)
		}
	}
	if !strings.HasSuffix(said, "\n"+last+"\n"+also+"\n") {
		t.Errorf("the report does not end with what was not played:\n%s", said)
	}
	for _, want := range []string{`"blocked_for_ns":2000000000`,
		`"faults":["pause","slow"],"what":{"en":"with two held"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the JSON has no %q:\n%s", want, data)
		}
	}
}

// The report tells a schedule that showed an unclaimed letter, with its commands.
func TestUnclaimedIsTold(t *testing.T) {
	t.Parallel()
	odd := faultlab.Played{Schedule: at("SET"), Outcome: "O", Story: &faultlab.Story{
		Lines: []faultlab.Line{{Actor: "A", Text: "redis: SET stock 4"}}}}
	_, said := reported(t, &faultlab.Result{Unclaimed: []faultlab.Played{odd}})
	if !strings.Contains(said, odd.Schedule.String()+": O\n") || !strings.Contains(said, "SET stock 4") {
		t.Errorf("Report() has not the schedule and its commands:\n%s", said)
	}
}

// reported returns the page and the text of a result.
func reported(t *testing.T, r *faultlab.Result) (page, said string) {
	t.Helper()
	var p, s strings.Builder
	testkit.Must(t, errors.Join(Page(&p, r, PageOptions{Lang: "en"}), Report(&s, r, "en")))
	return p.String(), s.String()
}

// at is a schedule that holds A at a command.
func at(pattern string) faultlab.Schedule {
	return faultlab.Schedule{Mode: "m", Store: api.Redis, Fault: api.Pause,
		A: &rig.Position{Server: "redis", Pattern: pattern, Nth: 1, Cut: rig.Command}}
}
