package trace

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/say/report"
	"lastitem/target"
)

// Rival is the request that comes while the first one holds the lock.
type Rival struct {
	Target string
	Status int
	Answer string
	Began  time.Duration // since the beginning of the first
	Took   time.Duration
}

// longer is for how much longer a trace may take because of its experiment: both the deduction before it and the
// observed one.
func (t *Tracer) longer(d Deduction) time.Duration { return d.Hold.Work + t.ttl }

// warm is the deduction before the observed one. With an experiment it holds the lock until the first renewal is over,
// so that the script of the renewal is loaded as well.
func (t *Tracer) warm(tr Trace) Trace {
	tr.ask.Key += "-before"
	if tr.Hold.Work > 0 {
		tr.ask.For = t.ttl/3 + t.ttl/12
	}
	return tr
}

// rivalWait is the longest wait_ms that a request may have.
const rivalWait = 30 * time.Second

// sendRival sends the rival's request a twelfth of the TTL after began, when the first has its lock. The returned
// function waits for its answer; nil = there is no rival.
func (t *Tracer) sendRival(ctx context.Context, d Deduction, began time.Time) func() (*Rival, error) {
	if !d.Rival {
		return func() (*Rival, error) { return nil, nil }
	}
	call := target.Ask{Mode: d.Mode.Name, Store: api.Store(d.Store), Product: product, Quantity: d.Quantity,
		Key: d.Key + "-rival", Wait: min(rivalWait, d.Hold.Work+t.ttl)}.Call().InQuery()
	r := &Rival{Target: call.Path}
	done := make(chan error, 1)
	go func() {
		select {
		case <-time.After(t.ttl / 12):
		case <-ctx.Done():
		}
		var err error
		r.Began = time.Since(began)
		r.Status, r.Answer, err = t.send(ctx, call)
		r.Took = time.Since(began) - r.Began
		done <- err
	}()
	return func() (*Rival, error) { return r, <-done }
}

// side is a line of a client in the table.
type side struct {
	at         time.Duration
	name, text string
}

func (s side) row() []string { return []string{"", micros(s.at), "", "", "", s.name, s.text} }

// sides are the lines of the clients after the first request, in the order of their time.
func (tr Trace) sides() []side {
	all := []side{{tr.Took, "client", fmt.Sprintf("%d %s", tr.Status, tr.Answer)}}
	if r := tr.Against; r != nil {
		all = append(all, side{r.Began, "rival", "POST " + r.Target},
			side{r.Began + r.Took, "rival", fmt.Sprintf("%d %s", r.Status, r.Answer)})
	}
	slices.SortStableFunc(all, func(a, b side) int { return int(a.at - b.at) })
	return all
}

// held draws the commands of a lock that was held for a long time. What differs from run to run is replaced, the TTL
// too, so that a run with a short TTL is drawn like one with a long TTL; and times are in TTLs.
type held struct {
	tr     Trace
	steady stabilizer
	owners []string // in the order in which they appear: the holder, the rival
}

// latchWords are how long Redis remembers the answer to a release, which is not the TTL.
var latchWords = regexp.MustCompile(`(redisson_unlock_latch:\S+ (?:\d+ PX |\d+ \S+ \d+ ))\d+`)

func (h *held) text(text string) string {
	text = latchWords.ReplaceAllString(text, "$1<latch>")
	text = regexp.MustCompile(`\b`+strconv.FormatInt(h.tr.TTL.Milliseconds(), 10)+`\b`).ReplaceAllString(text, "<ttl>")
	text = holdWord.ReplaceAllStringFunc(text, func(owner string) string {
		i := slices.Index(h.owners, owner)
		if i < 0 {
			i, h.owners = len(h.owners), append(h.owners, owner)
		}
		return []string{"<owner>", "<rival>"}[min(i, 1)]
	})
	return h.steady.text(text)
}

// heldLine is a command. A script that is sent again, word for word and with the same effect, stands where it was sent
// first: a renewal, or a waiter that tries again.
type heldLine struct {
	key, server string
	lines       []string
	at          []int // in twelfths of the TTL
}

// writeHeld is [Trace.WriteStable] for an experiment with the lock.
func (tr Trace) writeHeld(w io.Writer) error {
	h := &held{tr: tr, steady: stabilize(tr)}
	rows := [][]string{{"#", "TTLs", "server", "command"}, {"", "0", "client", "POST " + stableTarget(tr.Target)}}
	rival := tr.Against
	if rival != nil {
		h.steady.rival = stabilize(Trace{Deduction: tr.Deduction, Answer: rival.Answer}).order
	}
	said := rival == nil
	for i, l := range h.lines() {
		if !said && l.at[0] > 0 {
			said = true
			rows = append(rows, []string{"", twelfths(h.twelfth(rival.Began)), "rival", "POST " + stableTarget(rival.Target)})
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), l.when(), l.server, l.lines[0]})
		for _, line := range l.lines[1:] {
			rows = append(rows, []string{"", "", "", "  " + line})
		}
	}
	rows = append(rows, []string{"", "", "client", fmt.Sprintf("%d %s", tr.Status, h.text(tr.Answer))})
	if rival != nil {
		rows = append(rows, []string{"", "", "rival", fmt.Sprintf("%d %s", rival.Status, h.text(rival.Answer))})
	}
	_, err := io.WriteString(w, report.Align(rows, 2))
	return err
}

func (h *held) lines() []*heldLine {
	var all []*heldLine
	for _, s := range h.tr.Steps {
		if strings.HasPrefix(s.Text, "UNSUBSCRIBE ") { // it comes at a random moment: no client waits for it
			continue
		}
		at := h.twelfth(s.Sent)
		l := &heldLine{key: s.Text, server: s.Server, lines: []string{h.text(s.Text)}, at: []int{at}}
		if s.About != "" {
			l.lines = append(l.lines, s.About)
		}
		for _, in := range s.Inside {
			l.lines = append(l.lines, h.text(in.Text))
			l.key += "\n" + in.Text
		}
		again := slices.IndexFunc(all, func(o *heldLine) bool {
			return strings.HasPrefix(s.Text, "EVALSHA ") && o.key == l.key
		})
		if again >= 0 {
			all[again].at = append(all[again].at, at)
			continue
		}
		all = append(all, l)
	}
	return all
}

// twelfth is a time in twelfths of the TTL, to the nearest.
func (h *held) twelfth(d time.Duration) int { return int((d*12 + h.tr.TTL/2) / h.tr.TTL) }

// when says when a command was sent: once, every third of a TTL, or several times at random.
func (l *heldLine) when() string {
	first, last := twelfths(l.at[0]), twelfths(l.at[len(l.at)-1])
	if len(l.at) == 1 {
		return first
	}
	for i := range l.at[1:] {
		if l.at[i+1]-l.at[i] != 4 {
			return first + " …"
		}
	}
	return fmt.Sprintf("%s, %s … %s", first, twelfths(l.at[1]), last)
}

// twelfths writes n twelfths as a fraction in its lowest terms.
func twelfths(n int) string {
	a, b := n, 12
	for b != 0 {
		a, b = b, a%b
	}
	if d := 12 / a; d > 1 {
		return fmt.Sprintf("%d/%d", n/a, d)
	}
	return strconv.Itoa(n / 12)
}

// stableTarget leaves the times out of a request's address: they follow the TTL.
func stableTarget(target string) string {
	return regexp.MustCompile(`((?:hold|wait)_ms=)\d+`).ReplaceAllString(target, "$1<ms>")
}
