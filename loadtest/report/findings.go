package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/internal/audit"
	layout "lastitem/internal/report"
	"lastitem/loadtest"
	"lastitem/loadtest/words"
)

// finding is a line about a claim, or about missing data.
type finding struct {
	color, text string
	log         []string // of the service, during that run
}

// writeFindings writes which claims were confirmed, which were not, and why data is missing.
func writeFindings(b *strings.Builder, c loadtest.Comparison, style Style) {
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
func signs(c loadtest.Comparison, lang string) []string {
	var all []string
	if legend := legend(c, lang); legend != "" {
		all = append(all, legend)
	}
	if repetitions, runs := most(c); runs > 1 {
		text := words.Say(lang, "runs")
		if repetitions > 1 {
			text += words.Say(lang, "evidence sep") + words.Say(lang, "repetitions", repetitions)
		}
		all = append(all, text)
	}
	return all
}

// findings lists the number of confirmed claims, then the other claims, then runs that do not count and data that is
// missing.
func findings(c loadtest.Comparison, lang string) []finding {
	var all []finding
	line := func(color, text string, log ...string) { all = append(all, finding{color, text, log}) }
	color, text := confirmedLine(c, lang)
	line(color, text)
	for _, s := range byFinding(c.Summaries) {
		color, text := findingLine(s, rowName(s, c), lang)
		line(color, text, s.Log...)
	}
	for _, r := range c.Results {
		if r.Discounted != "" {
			line(yellow, words.Say(lang, "discounted", r.Mode, r.Repetition, r.Discounted))
		}
	}
	for _, f := range c.Failed {
		line(yellow, words.Say(lang, "run failed", f.Mode, f.Repetition, f.Why), f.Log...)
	}
	for _, s := range c.Skipped {
		line("", words.Say(lang, "skipped", s.Mode, s.Why))
	}
	for _, x := range c.Crossed {
		line(red, words.Say(lang, "crossed", x.Mode, x.Threshold, x.Value))
	}
	if c.Partial {
		line(yellow, words.Say(lang, "interrupted"))
	}
	return all
}

// byFinding returns the lines that need an explanation: contradicted claims first, modes without claims last.
func byFinding(summaries []loadtest.Summary) []loadtest.Summary {
	worded := slices.DeleteFunc(slices.Clone(summaries), func(s loadtest.Summary) bool {
		return s.Finding == audit.Confirmed
	})
	slices.SortStableFunc(worded, func(a, b loadtest.Summary) int {
		return loadtest.FindingRank(b.Finding) - loadtest.FindingRank(a.Finding)
	})
	return worded
}

// legend explains the signs and letters that the rows use; "" if they use none.
func legend(c loadtest.Comparison, lang string) string {
	marks, letters := false, ""
	for _, s := range c.Summaries {
		marks = marks || words.FindingMark(s.Finding) != ""
		letters += s.Found
		if s.Claim != "" {
			letters += string(s.Claim)
		}
	}
	var parts []string
	if marks {
		parts = append(parts, words.Say(lang, "legend marks"))
	}
	for _, letter := range []string{"O", "L", "D", "X", "A"} {
		if strings.Contains(letters, letter) {
			parts = append(parts, words.Say(lang, "letter "+letter))
		}
	}
	return strings.Join(parts, words.Say(lang, "evidence sep"))
}

// confirmedLine counts the claims that were confirmed.
func confirmedLine(c loadtest.Comparison, lang string) (color, text string) {
	if foreign(c) {
		return "", words.Say(lang, "no claim made")
	}
	claims, confirmed := 0, 0
	for _, s := range c.Summaries {
		if s.Finding == audit.Unclaimed || s.Finding == "" {
			continue
		}
		claims++
		if s.Finding == audit.Confirmed {
			confirmed++
		}
	}
	if claims == 0 {
		return "", words.Say(lang, "no claims")
	}
	where := words.Say(lang, "on one")
	if c.Environment.Replicas > 1 {
		where = words.Say(lang, "on several", c.Environment.Replicas)
	}
	if confirmed == claims {
		color = green
	}
	return color, words.Say(lang, "all confirmed", confirmed, claims, where)
}

// foreign says whether the runs are of a service that is not ours.
func foreign(c loadtest.Comparison) bool { return len(c.Results) > 0 && c.Results[0].Foreign }

// findingLine describes a mode's claim that was not confirmed.
func findingLine(s loadtest.Summary, name, lang string) (color, text string) {
	seen := rowVerdict(s, lang)
	why := strings.Join(s.Why, words.Say(lang, "evidence sep"))
	switch s.Finding {
	case audit.Contradicted:
		if why != "" {
			seen += " (" + why + ")"
		}
		return red, words.Say(lang, "contradiction", name, words.ClaimText(lang, s.Claim), seen)
	case audit.Undecided:
		return yellow, words.Say(lang, "undecided", name, cmp.Or(why, seen))
	}
	if s.Verdict != "" {
		if why != "" {
			seen += " (" + why + ")"
		}
		return verdictColor(s.Verdict), words.Say(lang, "unclaimed mode", name, seen)
	}
	if s.Standing() == audit.Undecided {
		color = yellow
	}
	return color, words.Say(lang, "baseline", name, s.Sent-int(s.Failed), s.Sent)
}

// numbers matches the parts in which two sentences with the same meaning may differ.
var numbers = regexp.MustCompile(`[0-9][0-9.]*`)

// noiseLines says why the speeds should not be trusted. A busy machine disturbs all rows, so each reason appears once,
// with the first row that it concerns. Reasons that differ only in numbers, or after a colon, count as one.
func noiseLines(c loadtest.Comparison, lang string) []string {
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
		lines[i] = words.Say(lang, "noisy rows", rows[reason], len(c.Summaries), first[reason])
	}
	return lines
}

// most returns the largest number of repetitions and the largest number of runs that any line has.
func most(c loadtest.Comparison) (repetitions, runs int) {
	for _, s := range c.Summaries {
		repetitions, runs = max(repetitions, s.Repetitions), max(runs, s.Runs)
	}
	return repetitions, runs
}

// planLine describes a plan in one line.
func planLine(p loadtest.Plan, e loadtest.Environment, lang string) string {
	parts := []string{loadText(p, lang), words.Say(lang, "plan stock", p.Stock)}
	if p.Products > 1 {
		parts = append(parts, words.Say(lang, "plan products", p.Products))
	}
	if p.Segments > 0 {
		parts = append(parts, words.Say(lang, "plan segments", p.Segments))
	}
	parts = append(parts, words.Say(lang, "plan quantity", p.Quantity), words.Say(lang, "plan wait", p.Wait))
	if p.Retry > 0 {
		parts = append(parts, words.Say(lang, "plan retry", p.Retry))
	}
	if p.Engine != "" {
		parts = append(parts, words.Say(lang, "plan engine", p.Engine))
	}
	if e.Replicas > 0 {
		if e.Replicas == 1 {
			parts = append(parts, words.Say(lang, "plan replica"))
		} else {
			parts = append(parts, words.Say(lang, "plan replicas", e.Replicas))
		}
	}
	if e.RTT > 0 {
		parts = append(parts, words.Say(lang, "plan rtt", e.RTT))
	}
	text := strings.Join(parts, words.Say(lang, "list sep"))
	if p.Name != "" {
		text = p.Name + ": " + text
	}
	return text
}

// loadText says how many requests a plan sends, and by which model.
func loadText(p loadtest.Plan, lang string) string {
	switch {
	case len(p.Stages) > 0:
		stages := make([]string, len(p.Stages))
		for i, s := range p.Stages {
			stages[i] = fmt.Sprintf("%s:%s", s.For, trimFloat(s.Rate))
		}
		return words.Say(lang, "plan stages", strings.Join(stages, ","))
	case p.Rate > 0:
		return words.Say(lang, "plan rate", trimFloat(p.Rate), p.Duration)
	case p.Loops > 0:
		return words.Say(lang, "plan each", p.VUs, p.Loops)
	case p.Requests > 0:
		return words.Say(lang, "plan total", p.VUs, p.Requests)
	case p.Duration > 0:
		return words.Say(lang, "plan for", p.VUs, p.Duration.Round(time.Millisecond))
	}
	return words.Say(lang, "plan empty")
}

func trimFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// The limits on printed evidence. The JSON has all of it.
const (
	evidenceUnits = 2 // units of stock per mode
	noteLines     = 2 // violations, missing data
)

// judgeNotes returns the lines under a row: units sold more than once, violations, and missing data.
func judgeNotes(s loadtest.Summary, lang string) []string {
	var evidence []audit.Evidence
	var violations, missing []string
	for _, r := range s.Reports {
		evidence = append(evidence, r.Evidence...)
		violations = append(violations, r.Violations...)
		missing = append(missing, r.Missing...)
	}
	var notes []string
	for i, e := range evidence {
		if i == evidenceUnits {
			notes = append(notes, words.Say(lang, "evidence units", len(evidence)-i))
			break
		}
		notes = append(notes, kept(e.Text(lang)))
	}
	notes = append(notes, capped(violations, "violation", lang)...)
	return append(notes, capped(missing, "missing", lang)...)
}

// capped returns the first few sentences, and a line that counts the rest.
func capped(sentences []string, key, lang string) []string {
	var lines []string
	for i, sentence := range sentences {
		if i == noteLines {
			return append(lines, words.Say(lang, "more lines", len(sentences)-i))
		}
		lines = append(lines, words.Say(lang, key, sentence))
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
