package trace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lastitem/contract/api"
	"lastitem/internal/stock"
	"lastitem/say/report"
)

var (
	shaWord  = regexp.MustCompile(`\b([0-9a-f]{8})[0-9a-f]{32}\b`)
	uuidWord = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
	// of watchdog: the process, and which of its holds
	holdWord  = regexp.MustCompile(`(\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):\d+\b`)
	latchWord = regexp.MustCompile(`(redisson_unlock_latch:\S+:)[0-9a-f]{32}\b`)
	nowWord   = regexp.MustCompile(`\b\d{16}\b`)
	clockWord = regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b`) // of a database
	limitWord = regexp.MustCompile(`(max_statement_time = )[\d.]+|(MAX_EXECUTION_TIME\()\d+`)
	// of the lock engine
	tokenWord    = regexp.MustCompile(`\b(?:v\d+-)?[0-9A-Z]{16}(?:-\d+-[-0-9A-Za-z%]*)?(\.[0-9a-z]+){3}\b`)
	leaseWord    = regexp.MustCompile(`\b[lL]ease:-?\d+`) // of etcd
	revisionWord = regexp.MustCompile(`revision:[1-9]\d*`)
	bytesWord    = regexp.MustCompile(` \(\d+ bytes\)$`)
	segmentWord  = regexp.MustCompile(`#\d+\}`)
	rankWord     = regexp.MustCompile(`-\d{10}\b`)
	runWord      = regexp.MustCompile(`(\brun(?: =)? )\d+`)
	// of the answers that Redis keeps
	runName = regexp.MustCompile(`\brun-[0-9a-z]+`)
)

// shortSHA shortens the name of a script: the script's own comment is on the next line.
func shortSHA(text string) string { return shaWord.ReplaceAllString(text, "$1…") }

// stabilizer replaces what differs from run to run by fixed words.
type stabilizer struct {
	order string // id of the order
	rival string // id of the rival's order; "" = there is none
	// fence matches the lock's fencing token if its server counts everything that it has ever done; else nil. clock is the
	// token if it comes from a clock.
	fence *regexp.Regexp
	clock string
}

// stabilize finds in the answer what must be replaced.
func stabilize(tr Trace) stabilizer {
	var answer struct {
		OrderID  string `json:"order_id"`
		TicketID string `json:"ticket_id"`
		Fence    uint64 `json:"fence"`
	}
	_ = json.Unmarshal([]byte(tr.Answer), &answer) // one without has none
	s := stabilizer{order: cmp.Or(answer.OrderID, api.Ticket{TicketID: answer.TicketID}.OrderOf())}
	counting := func(b stock.Backend) bool {
		return slices.Contains([]stock.Backend{stock.NeedZooKeeper, stock.NeedEtcd, stock.NeedConsul}, b)
	}
	if number := strconv.FormatUint(answer.Fence, 10); nowWord.MatchString(number) {
		s.clock = number
	} else if answer.Fence > 0 && slices.ContainsFunc(tr.Mode.Needs, counting) {
		s.fence = regexp.MustCompile(fmt.Sprintf(`("(?:fence|Index)\\?":|, )%d(, <now>|,\\?"|}|$)`, answer.Fence))
	}
	return s
}

func (s stabilizer) text(text string) string {
	if s.order != "" {
		text = strings.ReplaceAll(text, s.order, "<order id>")
	}
	if s.rival != "" {
		text = strings.ReplaceAll(text, s.rival, "<rival's order id>")
	}
	if s.clock != "" {
		text = strings.ReplaceAll(text, s.clock, "<fence>")
	}
	for _, r := range []struct {
		pattern *regexp.Regexp
		by      string
	}{
		{runWord, "$1<run>"}, {runName, "<run>"}, // before nowWord: one run in a thousand has 16 digits, too
		{holdWord, "$1"}, {uuidWord, "<owner>"}, {latchWord, "$1<request>"}, {tokenWord, "<token>"}, {shaWord, "<script>"},
		{nowWord, "<now>"}, {clockWord, "<then>"},
		{limitWord, "$1$2<limit>"}, {rankWord, "-<rank>"},
		{segmentWord, "#<i>}"}, {leaseWord, "lease:<lease>"}, {revisionWord, "revision:<revision>"}, {bytesWord, ""},
	} {
		text = r.pattern.ReplaceAllString(text, r.by)
	}
	if s.fence != nil {
		text = s.fence.ReplaceAllString(text, "$1<fence>$2")
	}
	return text
}

// WriteStable draws the commands alone, with <words> for all that differs from run to run: what the pages of the modes
// show, and what a test can compare. A command that repeats in a row, or goes to several nodes, stands there once.
func (tr Trace) WriteStable(w io.Writer) error {
	if tr.Hold != (stock.Hold{}) {
		return tr.writeHeld(w)
	}
	s := stabilize(tr)
	rows := [][]string{{"#", "server", "command"}, {"", "client", "POST " + tr.Target}}
	n := 0
	for _, group := range grouped(tr.Steps, s.text) {
		n++
		number := strconv.Itoa(n)
		if group.times > 1 {
			n += group.times - 1
			number += "-" + strconv.Itoa(n)
		}
		rows = append(rows, []string{number, group.server, group.lines[0]})
		for _, line := range group.lines[1:] {
			rows = append(rows, []string{"", "", "  " + line})
		}
	}
	rows = append(rows, []string{"", "client", fmt.Sprintf("%d %s", tr.Status, s.text(tr.Answer))})
	_, err := io.WriteString(w, report.Align(rows, 1))
	return err
}

// stepGroup is a command, what its script did, and how many times in a row it was sent; 1 where it went to several
// nodes, of which some may have been told after the answer.
type stepGroup struct {
	server string
	lines  []string
	times  int
}

// node is the number in the name of one of several servers of a kind. They are asked in a random order.
var node = regexp.MustCompile(` \d+$`)

// halfMinutely is what the engine's scripts do at the first grant in each half minute only.
var halfMinutely = regexp.MustCompile(`^PEXPIRE \S+:fence \d+$`)

// grouped puts together what is the same, by its text: neighbours, and what goes to several nodes.
func grouped(steps []Step, text func(string) string) []*stepGroup {
	var groups []*stepGroup
	for _, s := range steps {
		g := &stepGroup{server: node.ReplaceAllString(s.Server, " nodes"), lines: []string{text(s.Text)}, times: 1}
		if s.About != "" {
			g.lines = append(g.lines, s.About)
		}
		for _, in := range s.Inside {
			if !halfMinutely.MatchString(in.Text) {
				g.lines = append(g.lines, text(in.Text))
			}
		}
		same := slices.IndexFunc(groups, func(o *stepGroup) bool {
			return o.server == g.server && slices.Equal(o.lines, g.lines)
		})
		switch {
		case same >= 0 && g.server != s.Server:
		case same >= 0 && same == len(groups)-1:
			groups[same].times++
		default:
			groups = append(groups, g)
		}
	}
	return groups
}
