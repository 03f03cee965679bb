package judge

import (
	"fmt"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// String is the evidence as an English sentence: "unit 17 was sold 4 times: order 3f2a…9c01d2, replica 1, 12:00:00.123;
// ...".
func (e Evidence) String() string { return e.Text("en") }

// This file words a report for readers, in one place for the command line and for every table that quotes it.

// shown is how many orders of a unit a sentence names, and how many units a text.
const shown = 4

// longBlocked is the shortest Blocked time that a text report mentions.
const longBlocked = time.Second

// Text is the evidence as a sentence in the language lang ("zh", else English).
func (e Evidence) Text(lang string) string {
	times := max(e.Times, len(e.Orders))
	t, args := text.Of("unit %d was sold %d times"), []any{e.Unit, times}
	if e.Of > 0 && e.Unit > e.Of {
		t, args = text.Of("unit %d of %d was sold (times: %d)"), []any{e.Unit, e.Of, times}
	}
	var orders []string
	for _, o := range e.Orders[:min(len(e.Orders), shown)] {
		orders = append(orders, orderText(o, lang))
	}
	if more := times - len(orders); more > 0 {
		orders = append(orders, say(lang, text.Of("and %d more"), more))
	}
	return say(lang, t, args...) + text.Of(": ").In(lang) + strings.Join(orders, text.Of("; ").In(lang))
}

// orderText names an order by its id, who took it, and when by that replica's clock.
func orderText(o api.Order, lang string) string {
	parts := []string{say(lang, text.Of("order %s"), short(o.OrderID))}
	if o.Replica != "" {
		parts = append(parts, say(lang, text.Of("replica %s"), strings.TrimPrefix(o.Replica, "replica-")))
	}
	if !o.CreatedAt.IsZero() {
		parts = append(parts, o.CreatedAt.Format("15:04:05.000"))
	}
	return strings.Join(parts, text.Of(", ").In(lang))
}

// short cuts a long id to its two ends: ids that begin with the time differ at the tail, others anywhere.
func short(id string) string {
	if len(id) <= 14 {
		return id
	}
	return id[:4] + "…" + id[len(id)-6:]
}

// Text is the report for a reader, in the language lang ("zh", else English): the verdict, the numbers, and the
// sentences that go with them, a line each. The sentences come in the language in which the report was judged.
func (r Report) Text(lang string) string {
	var b strings.Builder
	line := func(label text.Text, format string, args ...any) {
		fmt.Fprintf(&b, "  %s  "+format+"\n", append([]any{pad(label.In(lang))}, args...)...)
	}
	b.WriteString(r.title(lang))
	if !r.unread() {
		stock, found := r.figures(lang)
		line(text.Of("stock"), "%s", stock)
		if r.Held+r.WrittenOff > 0 {
			line(text.Of("besides"), "%s", say(lang, text.Of("%d [unit is|units are] held, %d written off"), r.Held,
				r.WrittenOff))
		}
		if r.Passed > 0 {
			line(text.Of("besides"), "%s", say(lang, text.Of("%d [unit|units] went to SQL as tickets"), r.Passed))
		}
		line(text.Of("found"), "%s", found)
	}
	if len(r.Answers) > 0 {
		a := r.Answers
		line(text.Of("answers"), "%s", say(lang, text.Of("%d ok, %d sold out, %d declined, %d unknown"), a[OK], a[Refused],
			a[Declined], a[Unknown]))
	}
	if r.Blocked >= longBlocked || strings.Contains(r.Found, "X") {
		line(text.Of("blocked"), "%s", say(lang, text.Of("no request finished for %s while others were waiting"),
			r.Blocked.Round(time.Millisecond)))
	}
	for _, part := range []struct {
		label     text.Text
		sentences []string
	}{
		{text.Of("broken"), r.Violations}, {text.Of("follows"), r.Consequences}, {text.Of("because"), r.Missing},
		{text.Of("unchecked"), r.Unchecked},
	} {
		for _, s := range part.sentences {
			line(part.label, "%s", s)
		}
	}
	for _, e := range r.Evidence[:min(len(r.Evidence), shown)] {
		line(labelEvidence, "%s", e.Text(lang))
	}
	if more := len(r.Evidence) - shown; more > 0 {
		line(labelEvidence, "%s", say(lang, text.Of("and more: %d"), more))
	}
	return b.String()
}

// figures are what there was and is, and what was found, as far as it was looked for.
func (r Report) figures(lang string) (stock, found string) {
	switch {
	case r.Unseen.Before:
		return say(lang, text.Of("%d [order|orders] for %d [unit|units]"), r.Orders, r.Sold),
			say(lang, text.Of("double orders %d, lost orders %d"), r.Doubles, r.AckLost)
	case r.Unseen.After:
		return say(lang, text.Of("%d before; %d [order|orders] for %d [unit|units]"), r.Initial, r.Orders, r.Sold),
			say(lang, text.Of("oversold %d, double orders %d, lost orders %d, unjustified refusals %d"), r.Oversold, r.Doubles,
				r.AckLost, r.BadRefusals)
	}
	return say(lang, text.Of("%d before, %d after; %d [order|orders] for %d [unit|units]"), r.Initial, r.Final, r.Orders,
			r.Sold), say(lang, text.Of("oversold %d, lost updates %d, leaked %d, double orders %d, lost orders %d, unjustified "+
			"refusals %d"), r.Oversold, r.LostUpdates, r.Leaked, r.Doubles, r.AckLost, r.BadRefusals)
}

// unread says that nothing was read from the ledger, so that the numbers are zeros that nobody has counted.
func (r Report) unread() bool {
	return r.Verdict == Inconclusive && r.Replicas == nil && r.Answers == nil && r.Initial == 0 && r.Final == 0 &&
		r.Orders == 0
}

// title is the first line: what was judged, and the verdict with the letters found.
func (r Report) title(lang string) string {
	var parts []string
	if r.ProductID != 0 {
		parts = append(parts, say(lang, text.Of("product %d"), r.ProductID))
	}
	for _, p := range []string{string(r.Store), r.Mode} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	verdict := string(r.Verdict)
	if r.Found != "" {
		verdict += " (" + r.Found + ")"
	}
	return strings.Join(append(parts, verdict), " · ") + "\n"
}

// pad widens a label to a column of 10; a Chinese character takes two.
func pad(label string) string {
	width := 0
	for _, c := range label {
		width++
		if c > 0x2e80 {
			width++
		}
	}
	return label + strings.Repeat(" ", max(0, 10-width))
}
