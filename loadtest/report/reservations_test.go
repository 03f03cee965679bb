package report

import (
	"strings"
	"testing"
	"time"

	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/plan"
	"lastitem/testkit"
	"lastitem/testkit/resulttest"
)

// What became of the buyers stands in the text, the table and the page, in both languages, with what was not shown.
func TestHoldsAreShown(t *testing.T) {
	t.Parallel()
	r := resulttest.Exact("reserve-sql", 12*time.Millisecond)
	r.Plan.Reserving = plan.Reserving{For: 100 * time.Millisecond, Pays: 0.7, PaysLate: 0.1, Cancels: 0.15, PerBuyer: 2,
		Extends: 0.05, Returns: 0.04, Carts: 0.08, PayFrom: 20 * time.Millisecond, PayTo: 180 * time.Millisecond, Buyers: 9}
	r.Codes = map[string]int{"ok": 500, "held": 700, "cancelled": 60, "extended": 35, "returned": 40, "expired": 2,
		"sold_out": 240}
	r.Holds = &loadtest.ReservationFigures{Buyers: 940, Reserved: 700, Refused: 240, Sold: 500, Refunded: 71,
		Cancelled: 60,
		Expired:   140, Extended: 35, Returned: 20, Doubled: 33, Races: 7, SalesPerSecond: 625,
		Latency: map[judge.ReservationKind]loadtest.Latency{judge.Reserve: resulttest.Latency(700, 4*time.Millisecond)}}
	r.Verdicts[0].Unchecked = []string{"too few races"}
	r.Verdicts[0].Consequences = []string{"one", "two", "three"}
	r.Holds.History = map[int64][]judge.ReservationOp{101: {{Kind: judge.Confirm, Call: 1, Return: 2, Outcome: judge.OK,
		ReservationID: "h"}}}
	var lines strings.Builder
	testkit.Must(t, WriteHistory(&lines, r))
	want := `"kind":"confirm","call":1,"return":2,"outcome":"ok","reservation_id":"h"`
	if !strings.Contains(lines.String(), want) {
		t.Errorf("history %s lacks %s", lines.String(), want)
	}
	c := resulttest.Comparison(r)
	c.Plans = []plan.Plan{r.Plan}
	if n := c.Summaries[0].Unknown; n != 0 {
		t.Errorf("%d answers count as unknown, want 0", n)
	}
	for lang, want := range map[string][]string{
		"en": {"held for 100ms: 70% pay after 20ms to 180ms, 10% pay late, 15% cancel, 5% extend, 4% return, 8% want a second product, " +
			"at most 2 a buyer",
			"completed sales: 625/s; of 940 buyers, 700 reserved and 500 paid; sold_out answers: 240",
			"500 confirmed, 60 cancelled, 140 expired, 35 extended; late payments refunded: 71; orders returned: 20; " +
				"double clicks: 33",
			"confirms that met a deadline or a sweep: 7", "reserve 4.0/12.0/20.0", "not shown: too few races",
			"evidence: one", "evidence: two", "+1 more"},
		"zh": {"预扣 100ms：70% 在 20ms 到 180ms 后付款，10% 逾期付款，15% 取消，5% 延长预扣，4% 退货，8% 还要第二种商品，每人限购 2 件",
			"成交：625/s；940 名买家中 700 名预扣成功、500 名付款成功", "确认 500，取消 60，过期 140，延长 35；逾期付款退款 71 笔；退货 20 单",
			"没有测到：too few races", "证据：one"},
	} {
		var single, table, page strings.Builder
		style := Style{Lang: lang, Width: 1000}
		testkit.Must(t, WriteText(&single, r, style))
		testkit.Must(t, WriteTable(&table, c, style))
		testkit.Must(t, WritePage(&page, c, lang, nil))
		for form, got := range map[string]string{"text": single.String(), "table": table.String(), "page": page.String()} {
			for _, w := range want {
				if !strings.Contains(got, w) {
					t.Errorf("%s in %s lacks %q:\n%.3000s", form, lang, w, got)
				}
			}
		}
	}
}
