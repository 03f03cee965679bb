package loadtest

import (
	"strings"

	"lastitem/internal/audit"
	"lastitem/internal/columns"
)

// How much evidence is printed; the JSON has all of it.
const (
	evidenceUnits = 2 // units of stock per mode
	noteLines     = 2 // violations, missing data
)

// judgeNotes are the lines under a row: units sold more than once, violations, and missing data.
func judgeNotes(s Summary, lang string) []string {
	var evidence []audit.Evidence
	var violations, missing []string
	for _, r := range s.reports {
		evidence = append(evidence, r.Evidence...)
		violations = append(violations, r.Violations...)
		missing = append(missing, r.Missing...)
	}
	var notes []string
	for i, e := range evidence {
		if i == evidenceUnits {
			notes = append(notes, say(lang, "evidence units", len(evidence)-i))
			break
		}
		notes = append(notes, kept(e.Text(lang)))
	}
	notes = append(notes, capped(violations, "violation", lang)...)
	return append(notes, capped(missing, "missing", lang)...)
}

// capped words the first sentences under a key and counts the rest.
func capped(sentences []string, key, lang string) []string {
	var lines []string
	for i, sentence := range sentences {
		if i == noteLines {
			return append(lines, say(lang, "more lines", len(sentences)-i))
		}
		lines = append(lines, say(lang, key, sentence))
	}
	return lines
}

// kept keeps the parts of a sentence between its semicolons on one line each: an order is read as a whole.
func kept(sentence string) string {
	parts := strings.Split(sentence, "; ")
	for i, p := range parts {
		parts[i] = columns.Unbroken(p)
	}
	return strings.Join(parts, "; ")
}
