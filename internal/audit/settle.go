package audit

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
