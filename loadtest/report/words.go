package report

import (
	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/say/text"
)

// judged says the words of the judge: verdicts and findings.
var judged = text.Table(map[string]string{
	"EXACT": "EXACT", "BROKEN": "BROKEN", "INCONCLUSIVE": "INCONCLUSIVE", "VACUOUS": "VACUOUS",
	"confirmed": "confirmed", "contradicted": "contradicted", "inconclusive": "undecided", "unclaimed": "no claim",
})

// outcomeLetters explains the letters of outcomes.
var outcomeLetters = text.Table(map[string]string{
	"O": "O = oversold or lost update", "L": "L = leaked: stock gone without an order", "D": "D = double charge",
	"X": "X = stuck", "A": "A = acknowledged order lost",
	"B": "B = a buyer has more than the limit", "U": "U = undersold: refused although units were free",
})

// kinds names the kinds of answers.
var kinds = text.Table(map[client.Kind]string{
	client.Accepted: "accepted", client.Refused: "refused", client.Failed: "failed",
})

// The heads of the columns; a \n starts the second line. latencyHeads end with two that not every table has.
var (
	soldHeads = text.Table([]string{
		"mode", "claim", "verdict", "stock\nbefore/after", "sold\n(orders)", "over-\nsold", "lost\nupdates", "leaked",
	})
	answeredHeads = text.Table([]string{
		"mode", "sold\nout", "busy", "unknown", "accepted\n/s", "p50/p95/p99\naccepted, ms", "served by\neach replica",
	})
	latencyHeads = text.Table([]string{
		"label", "samples", "mean", "p50", "p90", "p95", "p99", "p99.9", "min", "max", "error %", "per second",
	})
)

// extraText says that more requests were sent than planned.
func extraText(n int, lang string) string {
	return text.Of("%d [request|requests] more than planned were sent, because none had been refused as sold out").
		With(n).In(lang)
}

// claimText describes a claim: exact, or the letters of its outcomes.
func claimText(lang string, claim api.Outcomes) string {
	switch claim {
	case "":
		return "–"
	case api.Exact:
		return text.Of("exact").In(lang)
	case api.NotApplicable:
		return string(claim)
	}
	return text.Of("breaks").In(lang) + " " + string(claim)
}

// verdictText describes a verdict, with the letters of the outcomes found.
func verdictText(lang string, v judge.Verdict, found string) string {
	if v == "" {
		return "–"
	}
	said := judged.In(lang)[string(v)]
	if found != "" {
		said += " " + found
	}
	return said
}

// findingMark returns the sign beside a claim, so that a finding never depends on colour alone.
func findingMark(f judge.Finding) string {
	switch f {
	case judge.Confirmed:
		return "✓"
	case judge.Contradicted:
		return "✗"
	case judge.Undecided:
		return "?"
	}
	return ""
}
