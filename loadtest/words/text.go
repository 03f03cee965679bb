// Package words has the texts of the reports, by key.
package words

import (
	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/text"
)

// Languages lists the languages that reports are written in.
var Languages = []string{"en", "zh"}

// Say returns the text of key in lang with args filled in. An unknown language is English; an unknown key is returned
// itself, so that a forgotten text shows in the output.
func Say(lang, key string, args ...any) string {
	format, ok := messages.In(lang)[key]
	if !ok {
		format, ok = pageTexts.In(lang)[key]
	}
	if !ok {
		return key
	}
	if len(args) == 0 {
		return format
	}
	return text.Sprintf(format, args...)
}

// ClaimText describes a claim: exact, or the letters of its outcomes.
func ClaimText(lang string, claim api.Outcomes) string {
	switch claim {
	case "":
		return "–"
	case api.Exact:
		return Say(lang, "exact")
	case api.NotApplicable:
		return string(claim)
	}
	return Say(lang, "breaks") + " " + string(claim)
}

// VerdictText describes a verdict, with the letters of the outcomes found.
func VerdictText(lang string, v audit.Verdict, found string) string {
	if v == "" {
		return "–"
	}
	said := Say(lang, string(v))
	if found != "" {
		said += " " + found
	}
	return said
}

// FindingMark returns the sign beside a claim, so that a finding never depends on colour alone.
func FindingMark(f audit.Finding) string {
	switch f {
	case audit.Confirmed:
		return "✓"
	case audit.Contradicted:
		return "✗"
	case audit.Undecided:
		return "?"
	}
	return ""
}

// messages holds every text of the table and the reports, by language. A \n in a column's head starts its second line.
var messages = text.Table(map[string]string{
	"exact": "exact", "breaks": "breaks",
	"EXACT": "EXACT", "BROKEN": "BROKEN", "INCONCLUSIVE": "INCONCLUSIVE", "VACUOUS": "VACUOUS",
	"confirmed": "confirmed", "contradicted": "contradicted", "inconclusive": "undecided", "unclaimed": "no claim",

	"letter O": "O = oversold or lost update", "letter L": "L = leaked: stock gone without an order",
	"letter D": "D = double charge", "letter X": "X = stuck", "letter A": "A = acknowledged order lost",
	"legend marks": "✓ claim confirmed, ✗ contradicted, ? undecided",

	"col mode": "mode", "col claim": "claim", "col verdict": "verdict", "col stock": "stock\nbefore/after",
	"col sold": "sold\n(orders)", "col oversold": "over-\nsold", "col lost": "lost\nupdates", "col leaked": "leaked",
	"col sold out": "sold\nout", "col busy": "busy", "col unknown": "unknown", "col accepted/s": "accepted\n/s",
	"col latency": "p50/p95/p99\naccepted, ms", "col replicas": "served by\neach replica",

	"evidence sep":   "; ",
	"evidence units": "+%d more such [unit|units] in the JSON",
	"tries":          "this is run %d; the earlier ones were exact",
	"violation":      "violation: %s", "missing": "missing: %s", "other codes": "other answers: %s",
	"more lines": "+%d more", "noise busy": "other programs used %.2f cores just before the load",
	"noise stolen":  "other virtual machines took %.2f cores away during it (steal)",
	"noise dropped": "%d [arrival was|arrivals were] dropped: %d [request was|requests were] in flight",
	"noise late":    "the load generator sent late: 1%% of the requests more than %v after their time",
	"discounted drops": "%d of %d arrivals (%.1f%%) were dropped, more than %.0f%%: %d [request was|requests were] in " +
		"flight, so the load was not the planned one, and the latencies are those of the sent requests; lower --rate, or " +
		"raise --max-in-flight",
	"discounted": "does not count: %s, repetition %d: %s",
	"extra":      "%d [request|requests] more than planned were sent, because none had been refused as sold out",
	"noisy":      "noisy: %s", "noisy rows": "noisy: %d of %d rows: %s",

	"all confirmed":  "confirmed: %d of %d [claim|claims] %s",
	"on one":         "on one replica (hazard: threads)",
	"on several":     "over %d replicas (hazard: replicas)",
	"contradiction":  "contradicted: %s claims %s, seen: %s",
	"undecided":      "undecided: %s: %s",
	"baseline":       "baseline: %s claims nothing; it answered %d of %d [request|requests]",
	"unclaimed mode": "no claim: %s, seen: %s",
	"skipped":        "skipped: %s: %s",
	"run failed":     "failed: %s, repetition %d: %s",
	"crossed":        "threshold crossed: %s: %s is %s",
	"interrupted":    "interrupted: the figures are partial",
	"no claims":      "no claim was checked",
	"no claim made":  "a service that is not lastitem makes no claim; it is judged all the same",
	"runs":           "k/n beside a verdict: k of n runs ended so, and the counts of the row are those of one of them",
	"repetitions":    "speeds are medians of %d [repetition|repetitions]",

	"plan each":  "%d [client|clients] × %d [request|requests]",
	"plan total": "%d [client|clients], %d [request|requests] in all", "plan for": "%d [client|clients] for %s",
	"plan rate": "%s arrivals/s for %s", "plan stages": "arrivals/s in stages %s", "plan empty": "no load",
	"plan stock": "stock %d", "plan quantity": "quantity %d", "plan products": "%d [product|products]",
	"plan segments": "%d [segment|segments]",
	"plan wait":     "wait %s", "plan engine": "engine %s", "plan replica": "1 replica", "plan replicas": "%d replicas",
	"plan rtt": "round trip %s", "plan retry": "up to %d [retry|retries]", "list sep": ", ",

	"col label": "label", "col samples": "samples", "col mean": "mean", "col median": "p50", "col p90": "p90",
	"col p95": "p95",
	"col p99": "p99", "col p99.9": "p99.9", "col min": "min", "col max": "max", "col error": "error %",
	"col throughput": "per second",

	"row accepted": "accepted", "row refused": "refused", "row failed": "failed", "row total": "total",
	"response time": "response time, ms (from the intended start to the last byte)",
	"service time":  "service time, ms (from the send to the last byte)",
	"lag":           "schedule lag, ms (open loop: send minus intended start)", "row lag": "lag",
	"report title":    "%s on %s, repetition %d: %s",
	"report requests": "requests: %d sent, %d of them [a retry|retries], %d dropped, in %s: %s/s",
	"report accepted": "accepted: %s/s to the last acceptance, after %s",
	"report codes":    "codes: %s", "report served": "served by: %s",
	"report series":  "accepted per second, over the run: %s (peak %d)",
	"report verdict": "verdict: %s", "report product": "verdict on product %d: %s",
	"report products": "+%d more [product|products], none of them worse", "report claim": "claim: %s: %s",
	"report partial":     "partial: interrupted before the end",
	"report counts":      "stock %d to %d, sold %d in %d [order|orders], oversold %d, lost updates %d, leaked %d",
	"report environment": "%s, %s/%s, %s × %d, GOMAXPROCS %d, lastitem %s",
})
