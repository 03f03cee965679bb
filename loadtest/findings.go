package loadtest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/internal/audit"
	"lastitem/internal/columns"
)

// writeFindings writes what became of the claims, and why anything is missing.
func writeFindings(b *strings.Builder, c Comparison, style Style) {
	lang := style.Lang
	line := func(color, text string) {
		lines := columns.Wrap(text, style.columns()-2)
		for i, l := range lines {
			if i > 0 {
				l = "  " + l
			}
			b.WriteString(style.paint(l, color) + "\n")
		}
	}
	if legend := legend(c, lang); legend != "" {
		line(dim, legend)
	}
	if repetitions, runs := most(c); runs > 1 {
		text := say(lang, "runs")
		if repetitions > 1 {
			text += say(lang, "evidence sep") + say(lang, "repetitions", repetitions)
		}
		line(dim, text)
	}
	color, text := confirmedLine(c, lang)
	line(color, text)
	for _, s := range byFinding(c.Summaries) {
		line(findingLine(s, rowName(s, c), lang))
		logLinesOf(s.log, line)
	}
	for _, r := range c.Results {
		if r.Discounted != "" {
			line(yellow, say(lang, "discounted", r.Mode, r.Repetition, r.Discounted))
		}
	}
	for _, f := range c.Failed {
		line(yellow, say(lang, "run failed", f.Mode, f.Repetition, f.Why))
		logLinesOf(f.Log, line)
	}
	for _, s := range c.Skipped {
		line("", say(lang, "skipped", s.Mode, s.Why))
	}
	for _, x := range c.Crossed {
		line(red, say(lang, "crossed", x.Mode, x.Threshold, x.Value))
	}
	if c.Partial {
		line(yellow, say(lang, "interrupted"))
	}
}

// logLinesOf writes the service's log lines of a run, under the line with the run's outcome.
func logLinesOf(log []string, line func(color, text string)) {
	for _, l := range log {
		line(dim, "  "+l)
	}
}

// byFinding returns the lines that need a word, the contradicted ones first and those that claim nothing last.
func byFinding(summaries []Summary) []Summary {
	worded := slices.DeleteFunc(slices.Clone(summaries), func(s Summary) bool { return s.Finding == audit.Confirmed })
	slices.SortStableFunc(worded, func(a, b Summary) int { return findingRank(b.Finding) - findingRank(a.Finding) })
	return worded
}

// legend explains the signs and the letters that the rows use; "" where they use none.
func legend(c Comparison, lang string) string {
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
		parts = append(parts, say(lang, "legend marks"))
	}
	for _, letter := range []string{"O", "L", "D", "X", "A"} {
		if strings.Contains(letters, letter) {
			parts = append(parts, say(lang, "letter "+letter))
		}
	}
	return strings.Join(parts, say(lang, "evidence sep"))
}

// confirmedLine counts the claims that were confirmed.
func confirmedLine(c Comparison, lang string) (color, text string) {
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
		return "", say(lang, "no claims")
	}
	where := say(lang, "on one")
	if c.Environment.Replicas > 1 {
		where = say(lang, "on several", c.Environment.Replicas)
	}
	if confirmed == claims {
		color = green
	}
	return color, say(lang, "all confirmed", confirmed, claims, where)
}

// findingLine words one mode's finding where it is not a confirmed claim.
func findingLine(s Summary, name, lang string) (color, text string) {
	seen := rowVerdict(s, lang)
	why := strings.Join(s.Why, say(lang, "evidence sep"))
	switch s.Finding {
	case audit.Contradicted:
		if why != "" {
			seen += " (" + why + ")"
		}
		return red, say(lang, "contradiction", name, claimText(lang, s.Claim), seen)
	case audit.Undecided:
		return yellow, say(lang, "undecided", name, cmp.Or(why, seen))
	}
	if s.Verdict != "" {
		return verdictColor(s.Verdict), say(lang, "unclaimed mode", name, seen)
	}
	if s.standing() == audit.Undecided {
		color = yellow
	}
	return color, say(lang, "baseline", name, s.Sent-int(s.Failed), s.Sent)
}

// numbers matches what differs between two sentences on the same thing.
var numbers = regexp.MustCompile(`[0-9][0-9.]*`)

// noiseLines says why speeds should not be trusted: once for each reason, with the first row it touched, since a busy
// machine touches them all. Reasons that differ only in their numbers or after a colon are one.
func noiseLines(c Comparison, lang string) []string {
	var reasons []string
	first, rows := map[string]string{}, map[string]int{}
	for _, s := range c.Summaries {
		for _, why := range s.noisy {
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
		lines[i] = say(lang, "noisy rows", rows[reason], len(c.Summaries), first[reason])
	}
	return lines
}

// most returns the largest numbers of repetitions and of runs of any line.
func most(c Comparison) (repetitions, runs int) {
	for _, s := range c.Summaries {
		repetitions, runs = max(repetitions, s.Repetitions), max(runs, s.Runs)
	}
	return repetitions, runs
}

// planLine writes a plan on one line.
func planLine(p Plan, e Environment, lang string) string {
	parts := []string{loadText(p, lang), say(lang, "plan stock", p.Stock)}
	if p.Products > 1 {
		parts = append(parts, say(lang, "plan products", p.Products))
	}
	if p.Segments > 0 {
		parts = append(parts, say(lang, "plan segments", p.Segments))
	}
	parts = append(parts, say(lang, "plan quantity", p.Quantity), say(lang, "plan wait", p.Wait))
	if p.Retry > 0 {
		parts = append(parts, say(lang, "plan retry", p.Retry))
	}
	if p.Engine != "" {
		parts = append(parts, say(lang, "plan engine", p.Engine))
	}
	if e.Replicas > 0 {
		if e.Replicas == 1 {
			parts = append(parts, say(lang, "plan replica"))
		} else {
			parts = append(parts, say(lang, "plan replicas", e.Replicas))
		}
	}
	if e.RTT > 0 {
		parts = append(parts, say(lang, "plan rtt", e.RTT))
	}
	text := strings.Join(parts, say(lang, "list sep"))
	if p.Name != "" {
		text = p.Name + ": " + text
	}
	return text
}

// loadText writes how many requests a plan makes, and how.
func loadText(p Plan, lang string) string {
	switch {
	case len(p.Stages) > 0:
		stages := make([]string, len(p.Stages))
		for i, s := range p.Stages {
			stages[i] = fmt.Sprintf("%s:%s", s.For, trimFloat(s.Rate))
		}
		return say(lang, "plan stages", strings.Join(stages, ","))
	case p.Rate > 0:
		return say(lang, "plan rate", trimFloat(p.Rate), p.Duration)
	case p.Loops > 0:
		return say(lang, "plan each", p.VUs, p.Loops)
	case p.Requests > 0:
		return say(lang, "plan total", p.VUs, p.Requests)
	case p.Duration > 0:
		return say(lang, "plan for", p.VUs, p.Duration.Round(time.Millisecond))
	}
	return say(lang, "plan empty")
}

func trimFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
