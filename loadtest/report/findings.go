package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/compare"
	"lastitem/loadtest/plan"
	layout "lastitem/say/report"
	"lastitem/say/text"
)

// finding is a line about a claim, or about missing data.
type finding struct {
	color, text string
	log         []string // of the service, during that run
}

// writeFindings writes which claims were confirmed, which were not, and why data is missing.
func writeFindings(b *strings.Builder, c compare.Comparison, style Style) {
	line := func(color, text string) {
		lines := layout.Wrap(text, style.columns()-2)
		for i, l := range lines {
			if i > 0 {
				l = "  " + l
			}
			b.WriteString(style.paint(l, color) + "\n")
		}
	}
	for _, text := range c.Instead {
		line(yellow, text)
	}
	for _, text := range signs(c, style.Lang) {
		line(dim, text)
	}
	for _, f := range findings(c, style.Lang) {
		line(f.color, f.text)
		for _, l := range f.log {
			line(dim, "  "+l)
		}
	}
}

// signs explains the letters, marks, counts and medians in the rows of the table.
func signs(c compare.Comparison, lang string) []string {
	var all []string
	if legend := legend(c, lang); legend != "" {
		all = append(all, legend)
	}
	if repetitions, runs := most(c); runs > 1 {
		said := text.Of("k/n beside a verdict: k of n runs ended so, and the counts of the row are those of one of " +
			"them").In(lang)
		if repetitions > 1 {
			said += text.Of("; ").In(lang) + text.Of("speeds are medians of %d [repetition|repetitions]").
				With(repetitions).In(lang)
		}
		all = append(all, said)
	}
	return all
}

// findings lists the number of confirmed claims, then the other claims, then runs that do not count and data that is
// missing.
func findings(c compare.Comparison, lang string) []finding {
	var all []finding
	line := func(color, said string, log ...string) { all = append(all, finding{color, said, log}) }
	if foreign(c) { // no count of claims can come first
		for _, v := range c.Results[0].Verdicts {
			if v.Verdict == judge.Broken {
				line(red, counted(v, lang))
				break
			}
		}
	}
	color, said := confirmedLine(c, lang)
	line(color, said)
	for _, s := range byFinding(c.Summaries) {
		color, said := findingLine(s, rowName(s, c), lang)
		line(color, said, s.Log...)
	}
	for _, r := range c.Results {
		if r.Discounted != "" {
			line(yellow, text.Of("does not count: %s, repetition %d: %s").With(r.Mode, r.Repetition, r.Discounted).In(lang))
		}
	}
	for _, f := range c.Failed {
		line(yellow, text.Of("failed: %s, repetition %d: %s").With(f.Mode, f.Repetition, f.Why).In(lang), f.Log...)
	}
	for _, s := range c.Skipped {
		line("", text.Of("skipped: %s: %s").With(s.Mode, s.Why).In(lang))
	}
	for _, x := range c.Crossed {
		line(red, text.Of("threshold crossed: %s: %s is %s").With(x.Mode, x.Threshold, x.Value).In(lang))
	}
	if c.Partial {
		line(yellow, text.Of("interrupted: the figures are partial").In(lang))
	}
	return all
}

// byFinding returns the lines that need an explanation: contradicted claims first, modes without claims last.
func byFinding(summaries []compare.Summary) []compare.Summary {
	worded := slices.DeleteFunc(slices.Clone(summaries), func(s compare.Summary) bool {
		return s.Finding == judge.Confirmed
	})
	slices.SortStableFunc(worded, func(a, b compare.Summary) int {
		return loadtest.FindingRank(b.Finding) - loadtest.FindingRank(a.Finding)
	})
	return worded
}

// legend explains the signs and letters that the rows use; "" if they use none.
func legend(c compare.Comparison, lang string) string {
	marks, letters := false, ""
	for _, s := range c.Summaries {
		marks = marks || findingMark(s.Finding) != ""
		letters += s.Found
		if s.Claim != "" {
			letters += string(s.Claim)
		}
	}
	var parts []string
	if marks {
		parts = append(parts, text.Of("✓ claim confirmed, ✗ contradicted, ? undecided").In(lang))
	}
	for _, letter := range strings.Split(judge.Letters, "") {
		if strings.Contains(letters, letter) {
			parts = append(parts, outcomeLetters.In(lang)[letter])
		}
	}
	return strings.Join(parts, text.Of("; ").In(lang))
}

// confirmedLine counts the claims that were confirmed.
func confirmedLine(c compare.Comparison, lang string) (color, said string) {
	if foreign(c) {
		return "", text.Of("a service that is not lastitem makes no claim; it is judged all the same").In(lang)
	}
	claims, confirmed := 0, 0
	for _, s := range c.Summaries {
		if s.Finding == judge.Unclaimed || s.Finding == "" {
			continue
		}
		claims++
		if s.Finding == judge.Confirmed {
			confirmed++
		}
	}
	if claims == 0 {
		return "", text.Of("no claim was checked").In(lang)
	}
	where := text.Of("on one replica (hazard: threads)").In(lang)
	if c.Environment.Replicas > 1 {
		where = text.Of("over %d replicas (hazard: replicas)").With(c.Environment.Replicas).In(lang)
	}
	if confirmed == claims {
		color = green
	}
	return color, text.Of("confirmed: %d of %d [claim|claims] %s").With(confirmed, claims, where).In(lang)
}

// foreign says whether the runs are of a service that is not ours.
func foreign(c compare.Comparison) bool { return len(c.Results) > 0 && c.Results[0].Foreign }

// findingLine describes a mode's claim that was not confirmed.
func findingLine(s compare.Summary, name, lang string) (color, said string) {
	seen := rowVerdict(s, lang)
	why := strings.Join(s.Why, text.Of("; ").In(lang))
	switch s.Finding {
	case judge.Contradicted:
		if why != "" {
			seen += " (" + why + ")"
		}
		return red, text.Of("contradicted: %s claims %s, seen: %s").With(name, claimText(lang, s.Claim), seen).In(lang)
	case judge.Undecided:
		said = text.Of("undecided: %s: %s").With(name, cmp.Or(why, seen)).In(lang)
		if s.Decide != "" {
			said += text.Of("; this decides it on a quieter machine: %s").With(s.Decide).In(lang)
		}
		return yellow, said
	}
	if s.Verdict != "" {
		if why != "" {
			seen += " (" + why + ")"
		}
		return verdictColor(s.Verdict), text.Of("no claim: %s, seen: %s").With(name, seen).In(lang)
	}
	if s.Standing() == judge.Undecided {
		color = yellow
	}
	return color, text.Of("baseline: %s claims nothing; it answered %d of %d [request|requests]").With(name,
		s.Sent-int(s.Failed), s.Sent).In(lang)
}

// numbers matches the parts in which two sentences with the same meaning may differ.
var numbers = regexp.MustCompile(`[0-9][0-9.]*`)

// noiseLines says why the speeds should not be trusted. A busy machine disturbs all rows, so each reason appears once,
// with the first row that it concerns. Reasons that differ only in numbers, or after a colon, count as one.
func noiseLines(c compare.Comparison, lang string) []string {
	var reasons []string
	first, rows := map[string]string{}, map[string]int{}
	for _, s := range c.Summaries {
		for _, why := range s.Noisy {
			reason, _, _ := strings.Cut(numbers.ReplaceAllString(why, "#"), ":")
			if rows[reason] == 0 {
				reasons = append(reasons, reason)
				first[reason] = rowName(s, c) + ": " + why
			}
			rows[reason]++
		}
	}
	lines := make([]string, len(reasons))
	for i, reason := range reasons {
		lines[i] = text.Of("noisy: %d of %d rows: %s").With(rows[reason], len(c.Summaries), first[reason]).In(lang)
	}
	return lines
}

// most returns the largest number of repetitions and the largest number of runs that any line has.
func most(c compare.Comparison) (repetitions, runs int) {
	for _, s := range c.Summaries {
		repetitions, runs = max(repetitions, s.Repetitions), max(runs, s.Runs)
	}
	return repetitions, runs
}

// planLine describes a plan in one line.
func planLine(p plan.Plan, e compare.Environment, lang string) string {
	parts := []string{loadText(p, lang), text.Of("stock %d").With(p.Stock).In(lang)}
	if p.Products > 1 {
		parts = append(parts, text.Of("%d [product|products]").With(p.Products).In(lang))
	}
	if p.Segments > 0 {
		parts = append(parts, text.Of("%d [segment|segments]").With(p.Segments).In(lang))
	}
	parts = append(parts, text.Of("quantity %d").With(p.Quantity).In(lang), text.Of("wait %s").With(p.Wait).In(lang))
	if p.Adjust > 0 {
		parts = append(parts, text.Of("%s%% adjust the stock first").With(trimFloat(100*p.Adjust)).In(lang))
	}
	switch h := p.Reserving; {
	case h.On():
		parts = append(parts, holdingText(h, lang))
	case h.PerBuyer > 0:
		parts = append(parts, text.Of("%d [buyer|buyers], at most %d [unit|units] each, and %s%% click twice").
			With(h.Buyers, h.PerBuyer, trimFloat(100*h.DoubleClicks)).In(lang))
	}
	if p.Retry > 0 {
		parts = append(parts, text.Of("up to %d [retry|retries]").With(p.Retry).In(lang))
	}
	if p.Engine != "" {
		parts = append(parts, text.Of("engine %s").With(p.Engine).In(lang))
	}
	if e.Replicas > 0 {
		if e.Replicas == 1 {
			parts = append(parts, text.Of("1 replica").In(lang))
		} else {
			parts = append(parts, text.Of("%d replicas").With(e.Replicas).In(lang))
		}
	}
	if e.RTT > 0 {
		parts = append(parts, text.Of("round trip %s").With(e.RTT).In(lang))
	}
	said := strings.Join(parts, text.Of(", ").In(lang))
	if p.Name != "" {
		said = p.Name + ": " + said
	}
	return said
}

// loadText says how many requests a plan sends, and by which model.
func loadText(p plan.Plan, lang string) string {
	switch {
	case len(p.Stages) > 0:
		stages := make([]string, len(p.Stages))
		for i, s := range p.Stages {
			stages[i] = fmt.Sprintf("%s:%s", s.For, trimFloat(s.Rate))
		}
		return text.Of("arrivals/s in stages %s").With(strings.Join(stages, ",")).In(lang)
	case p.Rate > 0:
		return text.Of("%s arrivals/s for %s").With(trimFloat(p.Rate), p.Duration).In(lang)
	case p.Loops > 0:
		return text.Of("%d [client|clients] × %d [request|requests]").With(p.VUs, p.Loops).In(lang)
	case p.Requests > 0:
		return text.Of("%d [client|clients], %d [request|requests] in all").With(p.VUs, p.Requests).In(lang)
	case p.Duration > 0:
		return text.Of("%d [client|clients] for %s").With(p.VUs, p.Duration.Round(time.Millisecond)).In(lang)
	}
	return text.Of("no load").In(lang)
}

func trimFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// The limits on printed evidence. The JSON has all of it.
const (
	evidenceUnits = 2 // units of stock per mode
	noteLines     = 2 // violations, missing data
)

// judgeNotes returns the lines under a row: units sold more than once, violations, and missing data.
func judgeNotes(s compare.Summary, lang string) []string {
	var evidence []judge.Evidence
	var violations, missing, unchecked []string
	for _, r := range s.Reports {
		evidence = append(evidence, r.Evidence...)
		violations = append(violations, r.Violations...)
		missing = append(missing, r.Missing...)
		if s.Holds != nil || !slices.Contains(api.Stores, r.Store) { // a store of somebody's own
			unchecked = append(unchecked, r.Unchecked...)
		}
	}
	var notes []string
	for i, e := range evidence {
		if i == evidenceUnits {
			notes = append(notes, text.Of("+%d more such [unit|units] in the JSON").With(len(evidence)-i).In(lang))
			break
		}
		notes = append(notes, kept(e.Text(lang)))
	}
	for _, r := range s.Reports {
		if s.Holds != nil || strings.Contains(r.Found, "B") { // nothing else of the row shows it
			notes = append(notes, capped(r.Consequences, text.Of("evidence: %s"), lang)...)
		}
	}
	notes = append(notes, capped(violations, text.Of("violation: %s"), lang)...)
	notes = append(notes, capped(missing, text.Of("missing: %s"), lang)...)
	return append(notes, capped(unchecked, text.Of("not shown: %s"), lang)...)
}

// capped returns the first few sentences, and a line that counts the rest.
func capped(sentences []string, as text.Text, lang string) []string {
	var lines []string
	for i, sentence := range sentences {
		if i == noteLines {
			return append(lines, text.Of("+%d more").With(len(sentences)-i).In(lang))
		}
		lines = append(lines, as.With(sentence).In(lang))
	}
	return lines
}

// kept prevents line breaks within the parts of a sentence between semicolons, so that each order stays on one line.
func kept(sentence string) string {
	semicolon := "; "
	if strings.Contains(sentence, "；") { // in Chinese
		semicolon = "；"
	}
	parts := strings.Split(sentence, semicolon)
	for i, p := range parts {
		parts[i] = layout.Unbroken(p)
	}
	return strings.Join(parts, semicolon)
}
