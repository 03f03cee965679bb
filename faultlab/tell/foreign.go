package tell

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"lastitem/contract/api"
	"lastitem/faultlab"
	"lastitem/say/report"
	"lastitem/say/text"
	"lastitem/target"
)

// foreignWords are the texts of the report on a foreign service, in one language.
type foreignWords struct {
	fault, found, tried, breaks, wrong, locks, never string
	letters                                          map[byte]string
}

var foreignTexts = text.Table(foreignWords{
	fault: "fault", found: "found", tried: "schedules", breaks: "\nFaults that break the service, and the first " +
		"position that showed each letter:\n",
	wrong: "\nSchedules that proved nothing:\n", locks: "\nLocks seen in Redis while a request was held: %s\n",
	never: "%s (never expires)",
	letters: map[byte]string{
		'O': "oversold, or an update was lost", 'L': "leaked: stock is gone without an order (if something repairs that " +
			"later: --settle)",
		'D': "a repeated request was charged twice",
		'X': "stuck: nobody is served any more (if its lock or key only lasts longer: --lock-ttl; if a repeated key is " +
			"refused as sold before, the refusal should name the order)",
		'A': "an acknowledged order is lost",
		'B': "a buyer has more than the limit", 'U': "refused while there was enough",
		'!': "the answers contradict the ledger, or the counter is below zero",
	},
})

// writeForeign writes the report on a foreign service: a line for each fault, the positions that broke the service, and
// the locks seen in its Redis.
func writeForeign(w io.Writer, r *faultlab.Result, lang string) error {
	t := foreignTexts.In(lang)
	var b strings.Builder
	b.WriteString(report.Left(t.fault, 12) + report.Left(t.found, 8) + t.tried + "\n")
	for _, c := range r.Cells {
		b.WriteString(report.Left(string(c.Fault), 12) + report.Left(string(c.Found), 8) + fmt.Sprint(c.Tried) + "\n")
	}
	if r.Broken() > 0 {
		b.WriteString(t.breaks)
	} else {
		_, said := foreignBanner(r, lang)
		b.WriteString("\n" + said.In(lang) + "\n")
	}
	for _, c := range r.Cells {
		for _, letter := range slices.SortedFunc(maps.Keys(c.Witnesses), byLetter) {
			means := t.letters[letter[0]]
			if letter == string(faultlab.Unexplained) {
				means = cmp.Or(c.Unexplained, means)
			}
			fmt.Fprintf(&b, "  %s %s  %s\n      %s\n", report.Left(string(c.Fault), 10), letter, means,
				where(c.Witnesses[letter]))
		}
	}
	wrong, busy := []string{t.wrong}, 0
	for _, c := range r.Cells {
		busy += c.BusyKeys
		for _, why := range c.Wrong {
			wrong = append(wrong, "  "+why+"\n")
		}
	}
	if len(wrong) > 1 {
		b.WriteString(strings.Join(wrong, ""))
	}
	if busy > 0 {
		b.WriteString("\n" + target.SayBusyKeys.With(busy).In(lang) + "\n")
	}
	if len(r.Leases) > 0 {
		var all []string
		for _, x := range r.Leases {
			if x.TTL == 0 {
				all = append(all, fmt.Sprintf(t.never, x.Key))
			} else {
				all = append(all, fmt.Sprintf("%s (%v)", x.Key, x.TTL))
			}
		}
		fmt.Fprintf(&b, t.locks, strings.Join(all, ", "))
	}
	if r.Interrupted {
		b.WriteString("\n" + interruptedText.In(lang))
	}
	writeBlocked(&b, r, lang)
	writeCounts(&b, r, lang)
	for _, said := range notPlayed(r, lang) {
		b.WriteString("\n" + said)
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// notPlayed has a sentence for everything that was not played on a foreign service.
func notPlayed(r *faultlab.Result, lang string) (all []string) {
	for _, g := range r.NotPlayed {
		var names []string
		for _, name := range g.Faults {
			names = append(names, string(name))
		}
		what := strings.TrimSpace(strings.Join(names, ", ") + " " + g.What.In(lang))
		all = append(all, text.Of("Not played: %s: %s.").With(what, g.Why).In(lang))
	}
	return all
}

func byLetter(a, b string) int {
	return strings.Index(faultlab.Letters, a) - strings.Index(faultlab.Letters, b)
}

// foreignBanner says in a sentence what came of a service, and the colour of that in a page.
func foreignBanner(r *faultlab.Result, lang string) (tone string, sentence text.Text) {
	switch n := r.Broken(); {
	case n > 0:
		return "bad", text.Of("Of %[2]d [fault|faults], %[1]d [breaks|break] the service.").With(n, len(r.Cells))
	case r.Proved() && r.Judged > 0:
		tone = "good"
		if len(r.Untested()) > 0 {
			tone = "warm"
		}
		held := ""
		if names := r.Faults(api.Exact); names != nil {
			held = text.Of(": ").In(lang) + strings.Join(names, ", ")
		}
		return tone, text.Of("Nothing that was played broke it%s.").With(held)
	case r.Judged == 0:
		return "warm", text.Of("No schedule could be judged.")
	default:
		return "warm", text.Of("Nothing broke it, but some schedules proved nothing.")
	}
}

// where is the text of a schedule without mode and fault: the variant and the positions.
func where(s faultlab.Schedule) string {
	_, where, _ := strings.Cut(s.String(), ", "+string(s.Fault))
	return strings.TrimSpace(strings.TrimPrefix(where, ","))
}

// foreignLine is the progress line of one fault of a foreign service.
func foreignLine(c faultlab.Cell, lang string) string {
	line := report.Left(string(c.Fault), 12) + report.Left(string(c.Found), 8) + fmt.Sprint(c.Tried)
	if n := len(c.Wrong); n > 0 {
		line += fmt.Sprintf(" (%s %d)", strings.Trim(foreignTexts.In(lang).wrong, "\n:："), n)
	}
	return line + "\n"
}
