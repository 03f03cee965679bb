package trace

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/say/report"
	"lastitem/say/text"
)

// tableWords are the words of the table, by language.
var tableWords = text.Table(struct {
	title, rival, store                    string
	sent, took, seen, ran, server, command string
	legend, logs, leftOut                  string
}{
	"%s: one deduction of %d, one replica, nobody else", "%s: one deduction of %d, one replica, and a rival while it " +
		"holds the lock", ", stock in %s",
	"sent µs", "took µs", "seen µs", "ran µs", "server", "command",
	"sent, took: on the wire between replica and server: when the command passed, and how long until its answer had.\n" +
		"seen, ran: by the server itself (Redis: MONITOR and slow log; MySQL: general and slow log): when it saw the " +
		"command,\n" +
		"and how long it worked. All times count from the beginning of the request; lines without a number are what a " +
		"script\n" +
		"does inside Redis.",
	"Proxies, MONITOR and logs cost time as well: compare the lines with each other, not with another run.",
	"Left out: health probes, and what a new connection says first. Before this request another one has opened the " +
		"connections and loaded the scripts.",
})

// WriteTable draws the table of a trace; lang is en or zh.
func (t *Tracer) WriteTable(w io.Writer, tr Trace, lang string) error {
	words := tableWords.In(lang)
	rows := [][]string{
		{"#", words.sent, words.took, words.seen, words.ran, words.server, words.command},
		{"", "0", micros(tr.Took), "", "", "client", "POST " + tr.Target},
	}
	rest := tr.sides()
	for i, s := range tr.Steps {
		for len(rest) > 0 && s.at() > rest[0].at {
			rows, rest = append(rows, rest[0].row()), rest[1:]
		}
		rows = append(rows, []string{
			strconv.Itoa(i + 1), micros(s.Sent), micros(s.Took), micros(s.Seen), micros(s.Ran), s.Server, shortSHA(s.Text),
		})
		if s.About != "" {
			rows = append(rows, []string{"", "", "", "", "", "", "  " + s.About})
		}
		for _, in := range s.Inside {
			rows = append(rows, []string{"", "", "", micros(in.Seen), "", "", "  " + in.Text})
		}
	}
	for _, side := range rest {
		rows = append(rows, side.row())
	}
	var b strings.Builder
	title := words.title
	if tr.Against != nil {
		title = words.rival
	}
	fmt.Fprintf(&b, title, tr.Mode.Name, tr.Quantity)
	if tr.Store != "" {
		fmt.Fprintf(&b, words.store, tr.Store)
	}
	b.WriteString("\n")
	for _, name := range t.serversOf(tr) {
		fmt.Fprintf(&b, "%s: %s\n", name, t.kinds[name])
	}
	b.WriteString("\n" + report.Align(rows, 5) + "\n" + words.legend + "\n" + words.logs + "\n" + words.leftOut + "\n")
	for _, n := range t.notes {
		b.WriteString(n.In(lang) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// serversOf names the servers of a trace, in the order in which they were first used.
func (t *Tracer) serversOf(tr Trace) []string {
	var names []string
	for _, s := range tr.Steps {
		if !slices.Contains(names, s.Server) {
			names = append(names, s.Server)
		}
	}
	return names
}

// micros writes a duration in microseconds, "–" for an unknown one.
func micros(d time.Duration) string {
	if d == Unknown {
		return "–"
	}
	return strconv.FormatInt(d.Microseconds(), 10)
}

// stepJSON is a Step as 'shop trace -o json' prints it; unknown values are left out.
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

func stepsJSON(steps []Step) []stepJSON {
	known := func(d time.Duration) *int64 {
		if d == Unknown {
			return nil
		}
		n := d.Microseconds()
		return &n
	}
	all := make([]stepJSON, 0, len(steps))
	for _, s := range steps {
		all = append(all, stepJSON{
			Server: s.Server, Command: s.Text, Script: s.About, SentUS: known(s.Sent), TookUS: known(s.Took),
			SeenUS: known(s.Seen),
			RanUS:  known(s.Ran), Inside: stepsJSON(s.Inside),
		})
	}
	return all
}

// JSON is a trace as an object of JSON; the times are microseconds from the beginning of the request.
func (t *Tracer) JSON(tr Trace) map[string]any {
	servers := map[string]string{}
	for _, name := range t.serversOf(tr) {
		servers[name] = t.kinds[name]
	}
	out := map[string]any{
		"mode": tr.Mode.Name, "store": tr.Store, "quantity": tr.Quantity, "key": tr.Key, "request": "POST " + tr.Target,
		"status": tr.Status, "answer": tr.Answer, "took_us": tr.Took.Microseconds(), "servers": servers,
		"steps": stepsJSON(tr.Steps),
	}
	if r := tr.Against; r != nil {
		out["rival"] = map[string]any{
			"request": "POST " + r.Target, "status": r.Status, "answer": r.Answer, "sent_us": r.Began.Microseconds(),
			"took_us": r.Took.Microseconds(),
		}
	}
	return out
}
