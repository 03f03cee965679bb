package words

import (
	"lastitem/internal/text"
)

// pageTexts are the texts of the reports that are pages.
var pageTexts = text.Table(map[string]string{
	"page title one": "Load test of %s", "page title several": "Load test of %d modes",
	"page exact": "The stock was deducted exactly.", "page inexact": "The stock was not deducted exactly.",
	"page held": "Every claim held.", "page contradicted": "A claim does not hold.",
	"page crossed":   "A threshold was crossed.",
	"page undecided": "Something could not be decided.", "page interrupted": "Interrupted: the figures are partial.",
	"page verdicts": "Verdicts", "page thresholds": "Thresholds", "page threshold": "threshold",
	"page measured": "measured", "page outcome": "outcome",
	"page kept": "✓ kept", "page not kept": "✗ crossed", "page speeds": "Speed", "page modes": "Mode by mode",
	"page mode":        "The run",
	"page environment": "Environment", "page again": "How to repeat it", "page table": "the numbers as a table",
	"page rates": "Accepted per second", "page rates unit": "Median of the runs; the thin line is their range. Bars of " +
		"broken modes are red, of undecided ones amber.",
	"page latencies": "Response time of accepted requests", "page latencies unit": "Milliseconds. The bar runs from p50 " +
		"to p99, the mark is p95; the scale is logarithmic. Values: p50 / p95 / p99.",
	"page curve": "Distribution of response times", "page curve unit": "Accepted requests. Across: the percentage that " +
		"was at least this fast; up: milliseconds.",
	"page curve desc":  "The median is %s ms, p99 is %s ms, the slowest request took %s ms.",
	"page curves desc": "One line for each mode: %s.",
	"page over time":   "Response time over the run", "page over time unit": "Accepted requests, in windows of %s. " +
		"Across: seconds since the start; up: milliseconds.",
	"page over time desc": "p99 is between %s and %s ms.", "page logarithmic": " Logarithmic.",
	"page answers": "Answers over the run", "page answers unit": "Answers per second, in windows of %s. Across: seconds " +
		"since the start.",
	"page answers desc": "At most %s accepted per second, and %s refused.",
	"page second":       "second", "page percentile": "percentile",
	"page shown": "Shown is repetition %d of %d, the one that decides the verdict.",
	"page time":  "time", "page version": "lastitem", "page go": "Go", "page machine": "machine",
	"page cores": "%d [core|cores], GOMAXPROCS %d", "page servers": "servers",
	"page replicas": "replicas", "page plan": "plan", "page seed": "seed", "page plan json": "the whole plan as JSON",
	"page commit": "git checkout %s", "page dirty": "The binary was built from %s with changes that are not committed.",
	"page unversioned": "The binary does not know the commit that it was built from.",
	"page token":       "The admin token is read from SHOP_ADMIN_TOKEN; passwords are written ***.",
	"page noise":       "Reasons not to trust the speeds", "page open": "Open a mode to see its course over time, its " +
		"distribution and its latencies.",
})
