package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/internal/stock"
)

// traceWords are the words of the table, by language.
var traceWords = map[string]struct {
	title, nobody                          string
	sent, took, seen, ran, server, command string
	legend, logs, leftOut                  string
}{
	"en": {
		"%s: one deduction of %d, one replica, nobody else", ", stock in %s",
		"sent µs", "took µs", "seen µs", "ran µs", "server", "command",
		"sent, took: on the wire between replica and server: when the command passed, and how long until its answer had.\n" +
			"seen, ran: by the server itself (Redis: MONITOR and slow log; MySQL: general and slow log): when it saw the command,\n" +
			"and how long it worked. All times count from the beginning of the request; lines without a number are what a script\n" +
			"does inside Redis.",
		"Proxies, MONITOR and logs cost time as well: compare the lines with each other, not with another run.",
		"Left out: health probes, and what a new connection says first. Before this request another one has opened the connections.",
	},
	"zh": {
		"%s：单副本、无竞争，扣减 %d 件", "，库存在 %s",
		"发出 µs", "耗时 µs", "收到 µs", "执行 µs", "服务", "命令",
		"发出、耗时：在副本与服务之间的线路上测得：命令何时经过，多久之后应答返回。\n" +
			"收到、执行：服务自己的记录（Redis：MONITOR 与慢日志；MySQL：general log 与慢日志）：何时收到命令，执行了多久。\n" +
			"时间都从请求开始算起；没有编号的行是脚本在 Redis 内部执行的命令。",
		"代理、MONITOR 和日志本身也要花时间：各行之间可以比较，不要与其他运行比较。",
		"未列出：健康检查的 ping，以及新连接的握手。在此之前已有一次请求建立了连接、加载了脚本。",
	},
}

// printTrace draws the table.
func printTrace(w io.Writer, t *tracer, tr trace, lang string) error {
	words := traceWords[lang]
	rows := [][]string{
		{"#", words.sent, words.took, words.seen, words.ran, words.server, words.command},
		{"", "0", micros(tr.took), "", "", "client", "POST " + tr.target},
	}
	end := []string{"", micros(tr.took), "", "", "", "client", fmt.Sprintf("%d %s", tr.status, tr.answer)}
	for i, s := range tr.steps {
		if end != nil && s.at() > tr.took {
			rows, end = append(rows, end), nil
		}
		rows = append(rows, []string{
			strconv.Itoa(i + 1), micros(s.sent), micros(s.took), micros(s.seen), micros(s.ran), s.server, shortSHA(s.text),
		})
		if s.about != "" {
			rows = append(rows, []string{"", "", "", "", "", "", "  " + s.about})
		}
		for _, in := range s.inside {
			rows = append(rows, []string{"", "", "", micros(in.seen), "", "", "  " + in.text})
		}
	}
	if end != nil {
		rows = append(rows, end)
	}
	var b strings.Builder
	fmt.Fprintf(&b, words.title, tr.mode.Name, tr.quantity)
	if tr.store != "" {
		fmt.Fprintf(&b, words.nobody, tr.store)
	}
	b.WriteString("\n")
	for _, name := range t.serversOf(tr) {
		fmt.Fprintf(&b, "%s: %s\n", name, t.kinds[name])
	}
	b.WriteString("\n" + align(rows, 5) + "\n" + words.legend + "\n" + words.logs + "\n" + words.leftOut + "\n")
	for _, n := range t.notes {
		b.WriteString(map[string]string{"en": n.en, "zh": n.zh}[lang] + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// serversOf names the servers that a trace met, in the order in which it did.
func (t *tracer) serversOf(tr trace) []string {
	var names []string
	for _, s := range tr.steps {
		if !slices.Contains(names, s.server) {
			names = append(names, s.server)
		}
	}
	return names
}

// align draws rows as columns, the first so many of them to the right.
func align(rows [][]string, right int) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], displayWidth(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			blank := strings.Repeat(" ", widths[i]-displayWidth(cell))
			if i < right {
				line += blank + cell + gap
			} else {
				line += cell + blank + gap
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// micros writes a duration in microseconds, "–" for an unknown one.
func micros(d time.Duration) string {
	if d == unknown {
		return "–"
	}
	return strconv.FormatInt(d.Microseconds(), 10)
}

var (
	shaWord      = regexp.MustCompile(`\b([0-9a-f]{8})[0-9a-f]{32}\b`)
	uuidWord     = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
	nowWord      = regexp.MustCompile(`\b\d{16}\b`)
	clockWord    = regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b`) // of a database
	limitWord    = regexp.MustCompile(`(max_statement_time = )[\d.]+|(MAX_EXECUTION_TIME\()\d+`)
	tokenWord    = regexp.MustCompile(`\b[0-9A-Z]{16}(\.[0-9a-z]+){3}\b`) // of the lock engine
	leaseWord    = regexp.MustCompile(`\b[lL]ease:-?\d+`)                 // of etcd
	revisionWord = regexp.MustCompile(`revision:[1-9]\d*`)
	bytesWord    = regexp.MustCompile(` \(\d+ bytes\)$`)
	segmentWord  = regexp.MustCompile(`#\d+\}`)
	rankWord     = regexp.MustCompile(`-\d{10}\b`)
	drawnWord    = regexp.MustCompile(`(-answers/|"reply_to":)\d+`) // in the mode kafka each replica draws its partition
	runWord      = regexp.MustCompile(`("run":|\brun = )\d+`)
	runName      = regexp.MustCompile(`\brun-[0-9a-z]+`)                                                  // of the answers that Redis keeps
	offsetWord   = regexp.MustCompile(`(-(?:answers/<partition>|requests/\d+): (?:key \d+ )?offset )\d+`) // probes go before
)

// shortSHA shortens the name of a script: what it says of itself stands on the next line.
func shortSHA(text string) string { return shaWord.ReplaceAllString(text, "$1…") }

// stabilizer replaces what differs from run to run by words.
type stabilizer struct {
	order string // id of the order
	// fence is the number of the lock, where that counts all that its server has ever done; nil where it does not. clock is it
	// where it comes from a clock.
	fence *regexp.Regexp
	clock string
}

// stabilize looks at the answer for what to replace.
func stabilize(tr trace) stabilizer {
	var answer struct {
		OrderID string `json:"order_id"`
		Fence   uint64 `json:"fence"`
	}
	_ = json.Unmarshal([]byte(tr.answer), &answer) // one without has none
	s := stabilizer{order: answer.OrderID}
	counting := func(b stock.Backend) bool {
		return slices.Contains([]stock.Backend{stock.NeedZooKeeper, stock.NeedEtcd, stock.NeedConsul}, b)
	}
	if number := strconv.FormatUint(answer.Fence, 10); nowWord.MatchString(number) {
		s.clock = number
	} else if answer.Fence > 0 && slices.ContainsFunc(tr.mode.Needs, counting) {
		s.fence = regexp.MustCompile(fmt.Sprintf(`("(?:fence|Index)\\?":|, )%d(, <now>|,"|}|$)`, answer.Fence))
	}
	return s
}

func (s stabilizer) text(text string) string {
	if s.order != "" {
		text = strings.ReplaceAll(text, s.order, "<order id>")
	}
	if s.clock != "" {
		text = strings.ReplaceAll(text, s.clock, "<fence>")
	}
	for _, r := range []struct {
		pattern *regexp.Regexp
		by      string
	}{
		{uuidWord, "<owner>"}, {tokenWord, "<token>"}, {shaWord, "<script>"}, {nowWord, "<now>"}, {clockWord, "<then>"},
		{limitWord, "$1$2<limit>"}, {rankWord, "-<rank>"},
		{segmentWord, "#<i>}"}, {leaseWord, "lease:<lease>"}, {revisionWord, "revision:<revision>"}, {bytesWord, ""},
		{drawnWord, "$1<partition>"}, {offsetWord, "$1<offset>"},
		{runWord, "$1<run>"}, {runName, "<run>"},
	} {
		text = r.pattern.ReplaceAllString(text, r.by)
	}
	if s.fence != nil {
		text = s.fence.ReplaceAllString(text, "$1<fence>$2")
	}
	return text
}

// printStable draws the commands alone, with <words> for all that differs from run to run: what the pages of the modes show, and
// what a test can compare. What is sent several times in a row, or to several nodes, stands there once, and what the answer does not
// wait for stands after it.
func printStable(w io.Writer, tr trace) error {
	s := stabilize(tr)
	rows := [][]string{{"#", "server", "command"}, {"", "client", "POST " + tr.target}}
	n := 0
	add := func(steps []tracedStep) {
		for _, group := range grouped(steps, s.text) {
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
	}
	waitedFor, beside := apart(tr.steps)
	add(waitedFor)
	rows = append(rows, []string{"", "client", fmt.Sprintf("%d %s", tr.status, s.text(tr.answer))})
	add(beside)
	_, err := io.WriteString(w, align(rows, 1))
	return err
}

// apart parts the steps that the answer waits for from those that it does not; see aside.
func apart(steps []tracedStep) (waitedFor, beside []tracedStep) {
	for _, s := range steps {
		if aside(s.text) {
			beside = append(beside, s)
		} else {
			waitedFor = append(waitedFor, s)
		}
	}
	return waitedFor, beside
}

// stepGroup is a command, what its script did, and how many times in a row it was sent; 1 where it went to several nodes, of
// which some may have been told after the answer.
type stepGroup struct {
	server string
	lines  []string
	times  int
}

// node is the number of a server of which there are several. In which order they are asked is chance.
var node = regexp.MustCompile(` \d+$`)

// grouped puts together what is the same, by its text: neighbours, and what goes to several nodes.
func grouped(steps []tracedStep, text func(string) string) []*stepGroup {
	var groups []*stepGroup
	for _, s := range steps {
		g := &stepGroup{server: node.ReplaceAllString(s.server, " nodes"), lines: []string{text(s.text)}, times: 1}
		if s.about != "" {
			g.lines = append(g.lines, s.about)
		}
		for _, in := range s.inside {
			g.lines = append(g.lines, text(in.text))
		}
		same := slices.IndexFunc(groups, func(o *stepGroup) bool { return o.server == g.server && slices.Equal(o.lines, g.lines) })
		switch {
		case same >= 0 && g.server != s.server:
		case same >= 0 && same == len(groups)-1:
			groups[same].times++
		default:
			groups = append(groups, g)
		}
	}
	return groups
}

// stepJSON is a tracedStep as 'shop trace --json' prints it; what is not known is left out.
type stepJSON struct {
	Server  string     `json:"server"`
	Command string     `json:"command"`
	Script  string     `json:"script,omitempty"`
	SentUS  *int64     `json:"sent_us,omitempty"`
	TookUS  *int64     `json:"took_us,omitempty"`
	SeenUS  *int64     `json:"seen_us,omitempty"`
	RanUS   *int64     `json:"ran_us,omitempty"`
	Inside  []stepJSON `json:"inside,omitempty"`
}

func stepsJSON(steps []tracedStep) []stepJSON {
	known := func(d time.Duration) *int64 {
		if d == unknown {
			return nil
		}
		n := d.Microseconds()
		return &n
	}
	all := make([]stepJSON, 0, len(steps))
	for _, s := range steps {
		all = append(all, stepJSON{
			Server: s.server, Command: s.text, Script: s.about, SentUS: known(s.sent), TookUS: known(s.took), SeenUS: known(s.seen),
			RanUS: known(s.ran), Inside: stepsJSON(s.inside),
		})
	}
	return all
}

func printTraceJSON(w io.Writer, t *tracer, tr trace) error {
	servers := map[string]string{}
	for _, name := range t.serversOf(tr) {
		servers[name] = t.kinds[name]
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{
		"mode": tr.mode.Name, "store": tr.store, "quantity": tr.quantity, "key": tr.key, "request": "POST " + tr.target,
		"status": tr.status, "answer": tr.answer, "took_us": tr.took.Microseconds(), "servers": servers, "steps": stepsJSON(tr.steps),
	})
}
