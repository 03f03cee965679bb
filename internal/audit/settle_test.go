package audit

import (
	"strings"
	"testing"
)

func TestSettle(t *testing.T) {
	t.Parallel()
	lost := func(final, sold int64) Report {
		return Report{Verdict: Broken, Found: "L", Initial: 10, Final: final, Sold: sold, Leaked: 10 - final - sold}
	}
	for name, test := range map[string]struct {
		looks []Report
		want  Verdict
		says  string
	}{
		"one look":       {[]Report{lost(8, 1)}, Broken, ""},
		"nothing moves":  {[]Report{lost(8, 1), lost(8, 1), lost(8, 1)}, Broken, ""},
		"sold meanwhile": {[]Report{lost(8, 1), lost(5, 2), lost(6, 2)}, Inconclusive, "3 looks units were gone without an order, from 1 to 3"},
		"same gap":       {[]Report{lost(8, 1), lost(7, 2)}, Inconclusive, "from 1 to 1"},
		"written":        {[]Report{lost(8, 1), {Verdict: Exact, Initial: 10, Final: 8, Sold: 2}}, Exact, ""},
		"oversold too":   {[]Report{lost(8, 1), {Verdict: Broken, Found: "OL", Initial: 10, Final: 8, Sold: 2}}, Broken, ""},
		"more is wrong":  {[]Report{lost(8, 1), {Verdict: Broken, Found: "L", Final: 7, Violations: []string{"an order has no id"}}}, Broken, ""},
	} {
		got := Settle(test.looks)
		if got.Verdict != test.want || !strings.Contains(strings.Join(got.Missing, ""), test.says) {
			t.Errorf("%s: %s %q, want %s %q", name, got.Verdict, got.Missing, test.want, test.says)
		}
	}
}
