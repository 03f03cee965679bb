package audit

import (
	"time"

	"lastitem/internal/api"
)

// A ledger that is read while its product is sold may show units that were taken and whose order is not written yet: most modes on Redis
// take the units by one command and write the order by another. So whoever judges a running shop reads again after LookAgain, until
// InFlight has passed.
const (
	InFlight  = time.Second
	LookAgain = 20 * time.Millisecond
)

// Looks are the reports on each store of a product, in the order of their making.
type Looks map[api.Store][]Report

// Add adds a report, and returns the verdict on all that there are of its store, see [Settle]. again says that it shows lost units and
// nothing else.
func (l Looks) Add(r Report) (settled Report, again bool) {
	l[r.Store] = append(l[r.Store], r)
	return Settle(l[r.Store]), r.Verdict == Broken && r.Found == "L"
}

// Settle returns the last of several reports on one store of a product, each judged from a ledger alone and in the order of their making.
// Between taking the units and writing the order a sale looks like lost units. So where units were lost in each report, nothing else is
// wrong, and the stock or the orders changed between the first and the last, the verdict is INCONCLUSIVE instead of BROKEN: nobody knows
// which units are lost and which are being sold. Units that stay lost while nothing else moves are lost.
func Settle(looks []Report) Report {
	last := looks[len(looks)-1]
	fewest, most := last.Leaked, last.Leaked
	for _, r := range looks {
		if r.Verdict != Broken || r.Found != "L" || len(r.Violations) > 0 {
			return last
		}
		fewest, most = min(fewest, r.Leaked), max(most, r.Leaked)
	}
	if first := looks[0]; first.Final == last.Final && first.Sold == last.Sold {
		return last
	}
	last.Verdict = Inconclusive
	last.Missing = append(last.Missing, say(last.Lang, sayBeingSold, len(looks), fewest, most))
	return last
}
