package judge

import (
	"context"
	"time"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// A ledger that is read while its product is sold may show units that were taken and whose order is not written yet:
// most modes on Redis take the units by one command and write the order by another. So the judge of a running shop
// reads again every lookAgain until inFlight has passed.
const (
	inFlight  = time.Second
	lookAgain = 20 * time.Millisecond
)

// Watch judges a product that may be being sold. look reads the ledger and judges each store. If a store shows lost
// units and nothing else, Watch looks again, for a second and once at least; [Settle] makes one report from all looks
// at a store. An error of look ends it. If ctx ends after a look, Watch returns the last complete reports, with lost
// units undecided, and the cause.
func Watch(ctx context.Context, look func() ([]Report, error)) ([]Report, error) {
	looks := map[api.Store][]Report{}
	var last []Report
	for began := time.Now(); ; {
		reports, err := look()
		if err != nil && last != nil && ctx.Err() != nil {
			return unsettled(last), context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		again := false
		for i, r := range reports {
			looks[r.Store] = append(looks[r.Store], r)
			reports[i], again = Settle(looks[r.Store]), again || r.OnlyLost()
		}
		if !again || last != nil && time.Since(began) > inFlight {
			return reports, nil
		}
		last = reports
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return unsettled(last), context.Cause(ctx)
		}
	}
}

// unsettled makes each report inconclusive that says only that units are lost: there was no time to see whether these
// were sales under way.
func unsettled(reports []Report) []Report {
	for i := range reports {
		if r := &reports[i]; r.OnlyLost() {
			r.Verdict = Inconclusive
			r.Missing = append(r.Missing, say(r.Lang, text.Of("units are gone without an order, which may be sales whose "+
				"order is not written yet, and there was no time to look again; audit it again")))
		}
	}
	return reports
}

// OnlyLost says that units were taken for which there is no order, and that nothing else is wrong. That may be a sale
// under way.
func (r Report) OnlyLost() bool {
	said := 0
	if r.Overdrawn > 0 { // a refusal that has not put its units back yet
		said = 1
	}
	return r.Verdict == Broken && (r.Found == "L" || r.Found == "" && said > 0) && len(r.Violations) == said
}

// Settle returns the last of several reports on one store of a product, each judged from a ledger alone and in the
// order of their making. Between taking the units and writing the order a sale looks like lost units. So where units
// were lost in each report, nothing else is wrong, and the stock or the orders changed between the first and the last,
// the verdict is INCONCLUSIVE instead of BROKEN: nobody knows which units are lost and which are being sold. Units that
// stay lost while nothing else moves are lost.
func Settle(looks []Report) Report {
	last := looks[len(looks)-1]
	gone := func(r Report) int64 { return r.Leaked + r.Overdrawn }
	fewest, most := gone(last), gone(last)
	for _, r := range looks {
		if !r.OnlyLost() {
			return last
		}
		fewest, most = min(fewest, gone(r)), max(most, gone(r))
	}
	if first := looks[0]; first.Final == last.Final && first.Sold == last.Sold {
		return last
	}
	last.Verdict = Inconclusive
	last.Missing = append(last.Missing, say(last.Lang, text.Of("the product was being sold: at each of %d looks units "+
		"were gone without an order, from %d to %d of them, which may be sales whose order is not written yet; audit it "+
		"again when no deduction is in flight"), len(looks), fewest, most))
	return last
}
