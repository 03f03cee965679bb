package judge

import (
	"strings"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// Letters are the broken outcomes, in the order in which they are written.
const Letters = "OLDXABU"

// Check holds a report against a claim, and says why, one sentence each.
//
// "." is confirmed by EXACT alone. A set of letters is confirmed when the run was BROKEN, at least one of them was
// seen, and nothing outside the set: no other letter, and no violation that the letters seen do not imply (the report
// keeps the implied ones apart, as consequences). A claim to break that did not break is contradicted, unless the run
// could not have shown it. "" is Unclaimed, "–" Undecided.
//
//	claim  report            finding
//	.      EXACT             confirmed
//	.      BROKEN O          contradicted
//	O      BROKEN O          confirmed
//	O      EXACT             contradicted: not tested or not broken
//	O      BROKEN O D        contradicted: D is not claimed
//	X L    BROKEN L          confirmed: one of them is enough
//	any    INCONCLUSIVE      undecided, and so is VACUOUS
func Check(r Report, claim api.Outcomes) (Finding, []string) {
	claimed := strings.ReplaceAll(string(claim), " ", "")
	switch {
	case claimed == "":
		return Unclaimed, nil
	case claim == api.NotApplicable:
		return Undecided, []string{say(r.Lang, text.Of("the claim is that this cannot happen here, so there is nothing to "+
			"compare"))}
	case claim != api.Exact && strings.Trim(claimed, Letters) != "":
		return Undecided, []string{say(r.Lang, text.Of("the claim %q is not made of outcome letters"), claim)}
	case r.Verdict == Broken:
		return checkBroken(r, claimed)
	case r.Verdict != Exact:
		return Undecided, append([]string{say(r.Lang, text.Of("the run was %s, so the claim is neither confirmed nor "+
			"contradicted"), r.Verdict)}, r.Missing...)
	case claim == api.Exact:
		return Confirmed, []string{say(r.Lang, text.Of("claimed exact, and exact: %d of %d units sold, each once"), r.Sold,
			r.Initial)}
	default:
		return Contradicted, []string{say(r.Lang, text.Of("claimed %s, but did not break: not tested or not broken"),
			claimed)}
	}
}

// checkBroken compares what was seen with what was claimed. A report is BROKEN by a letter or a violation, so if
// nothing is outside the claim, a claimed letter was seen. A claim to leak covers a counter that stays below zero.
func checkBroken(r Report, claimed string) (Finding, []string) {
	var seen, outside []string
	for _, l := range r.Found {
		if strings.ContainsRune(claimed, l) {
			seen = append(seen, letter(r, byte(l)))
		} else {
			outside = append(outside, unclaimed(r, claimed, byte(l)))
		}
	}
	for _, v := range r.Violations {
		if r.Overdrawn > 0 && strings.Contains(claimed, "L") && v == say(r.Lang, sayOverdrawn, r.Final, r.Overdrawn) {
			seen = append(seen, v) // such units are lost too, once there are as many
		} else {
			outside = append(outside, v)
		}
	}
	if len(outside) > 0 {
		return Contradicted, outside
	}
	return Confirmed, seen
}

// unclaimed says that an outcome was seen which the claim rules out.
func unclaimed(r Report, claimed string, l byte) string {
	if claimed == string(api.Exact) {
		return say(r.Lang, text.Of("claimed exact, but %s"), letter(r, l))
	}
	return say(r.Lang, text.Of("claimed %s, but %s"), claimed, letter(r, l))
}

// letter says what an outcome of the report means, with its numbers.
func letter(r Report, l byte) string {
	if said := r.Said[rune(l)]; len(said) > 0 {
		return said[0] // Consequences has the others
	}
	switch l {
	case 'O':
		return say(r.Lang, text.Of("oversold %d [unit|units], and lost updates left %d [unit|units] too many to sell"),
			r.Oversold, r.LostUpdates)
	case 'L':
		return say(r.Lang, text.Of("%d [unit is|units are] gone without an order"), r.Leaked)
	case 'D':
		return say(r.Lang, text.Of("%d [order|orders] beyond the first for the same idempotency key"), r.Doubles)
	case 'X':
		return say(r.Lang, text.Of("it got stuck with %d [unit|units] left"), r.Final)
	case 'B':
		return say(r.Lang, text.Of("a buyer has more than the limit"))
	case 'U':
		return say(r.Lang, text.Of("%d [request was|requests were] refused while units were free"), r.BadRefusals)
	default:
		return say(r.Lang, text.Of("%d acknowledged [order is|orders are] not there"), r.AckLost)
	}
}
