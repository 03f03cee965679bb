package audit

import (
	"slices"
	"strings"
	"testing"

	"lastitem/internal/api"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	exact := Report{Verdict: Exact, Sold: 10, Initial: 10}
	broken := func(found string, violations ...string) Report {
		return Report{Verdict: Broken, Found: found, Violations: violations, Consequences: []string{"the stock is -1"}}
	}
	for _, c := range []struct {
		name  string
		r     Report
		claim api.Outcomes
		want  Finding
		why   string
	}{
		{"exact as claimed", exact, ".", Confirmed, "10 of 10"},
		{"exact, claimed broken", exact, "O", Contradicted, "not tested or not broken"},
		{"exact, no claim", exact, "", Unclaimed, ""},
		{"exact, not applicable", exact, "–", Undecided, "cannot happen"},
		{"claim misspelt", exact, "Q", Undecided, "outcome letters"},
		{"misspelt beside a right one", broken("O"), "OQ", Undecided, "outcome letters"},
		{"broken, claimed exact", broken("O"), ".", Contradicted, "claimed exact, but oversold"},
		{"broken as claimed", broken("O"), "O", Confirmed, "oversold"},
		{"one of the claimed", broken("L"), "X L", Confirmed, "without an order"},
		{"all of the claimed", broken("OLA"), "O A L", Confirmed, "not there"},
		{"another letter", broken("L"), "O", Contradicted, "claimed O, but 0 units"},
		{"one letter too many", broken("OD"), "O", Contradicted, "beyond the first"},
		{"stuck, claimed to leak", broken("X"), "L", Contradicted, "stuck"},
		{"a violation beside the letter", broken("O", "2 rows repeat an id"), "O", Contradicted, "repeat"},
		{"a violation alone", broken("", "refused though in stock"), "O", Contradicted, "refused"},
		{"a violation, claimed exact", broken("", "refused though in stock"), ".", Contradicted, "refused"},
		{"inconclusive", Report{Verdict: Inconclusive, Missing: []string{"no ledger"}}, ".", Undecided, "no ledger"},
		{"inconclusive, claimed broken", Report{Verdict: Inconclusive, Found: "O"}, "O", Undecided, "INCONCLUSIVE"},
		{"vacuous", Report{Verdict: Vacuous, Missing: []string{"one replica"}}, ".", Undecided, "one replica"},
		{"vacuous, claimed broken", Report{Verdict: Vacuous}, "O", Undecided, "VACUOUS"},
		{"no report", Report{}, ".", Undecided, "neither"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, why := Check(c.r, c.claim)
			if got != c.want || !strings.Contains(strings.Join(why, "\n"), c.why) {
				t.Errorf("Check(%s %q, %q) = %s %q, want %s %q", c.r.Verdict, c.r.Found, c.claim, got, why, c.want, c.why)
			}
		})
	}
}

// TestConsequences breaks the good run so that one outcome brings other broken rules with it: a claim of that outcome
// covers them, a claim of exactness does not.
func TestConsequences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(in *Input, l *api.Ledger)
		claim  api.Outcomes
		phrase string
	}{
		{"negative stock after overselling", func(in *Input, l *api.Ledger) {
			l.Stock[api.SQL] = -1
			l.Orders = append(l.Orders, row("o8", 1, -1, "", 8))
			in.History = append(in.History, op(OK, 96, 105, 1, "o8", ""))
		}, "O", "the stock is -1"},
		{"negative stock after a refusal was not undone", func(_ *Input, l *api.Ledger) { l.Stock[api.SQL] = -1 }, "L", "the stock is -1"},
		{"units shared after a lost update", func(in *Input, l *api.Ledger) {
			l.Orders = append(l.Orders, row("o8", 1, 5, "", 8))
			in.History = append(in.History, op(OK, 21, 41, 1, "o8", ""))
		}, "O", "more than one order"},
		{"refused because of a leak", func(in *Input, l *api.Ledger) { drop(in, l, "o7") }, "L", "because of the leaked"},
		{"more acknowledged than there was, rows rolled back", func(in *Input, _ *api.Ledger) {
			in.History = append(in.History, op(OK, 6, 7, 5, "lost", ""))
		}, "OAL", "11 units were acknowledged"},
		{"stored answer of a lost order", func(_ *Input, l *api.Ledger) {
			l.Orders = slices.Delete(l.Orders, 3, 4)
			l.Stock[api.SQL]++
		}, "A", "an order that is not there"},
		{"replay of the other of two charges", func(in *Input, l *api.Ledger) {
			l.Orders[6].Key, in.History[lastOK].Key = "k4", "k4"
			in.History[theReplay].OrderID = "o7"
		}, "D", "from the first answer for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := good()
			c.change(&in, in.Ledger)
			r := Judge(in)
			if !strings.Contains(strings.Join(r.Consequences, "\n"), c.phrase) {
				t.Errorf("consequences are %q, want %q", r.Consequences, c.phrase)
			}
			if got, why := Check(r, c.claim); got != Confirmed {
				t.Errorf("Check(%q) = %s %q, want confirmed", c.claim, got, why)
			}
			if got, _ := Check(r, api.Exact); got != Contradicted {
				t.Errorf("Check(%q) = %s, want contradicted", api.Exact, got)
			}
		})
	}
}
