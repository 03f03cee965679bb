package audit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/api"
)

// An audit of many orders takes longer than a sale, so even then units without an order are looked at twice.
func TestWatch(t *testing.T) {
	t.Parallel()
	lost, exact := Report{Store: api.Redis, Verdict: Broken, Found: "L"}, Report{Store: api.Redis, Verdict: Exact}
	more := Report{Store: api.Redis, Verdict: Broken, Found: "L", Violations: []string{"an order has no id"}}
	for name, test := range map[string]struct {
		looks []Report // the last is repeated
		took  time.Duration
		until time.Duration // when the context ends, 0 = never
		want  Verdict
		times int
		says  string
	}{
		"written by the second look": {[]Report{lost, exact}, 3 * time.Second, 0, Exact, 2, ""},
		"lost":                       {[]Report{lost}, 3 * time.Second, 0, Broken, 2, ""},
		"quick looks":                {[]Report{lost}, 480 * time.Millisecond, 0, Broken, 3, ""},
		"nothing to look for":        {[]Report{more}, time.Millisecond, 0, Broken, 1, ""},
		"no time for a second":       {[]Report{lost}, 3 * time.Second, 5 * time.Second, Inconclusive, 2, "no time to look again"},
		"no time at all":             {[]Report{lost}, 3 * time.Second, 3 * time.Second, Inconclusive, 1, "no time to look again"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.until > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.until)
					defer cancel()
				}
				times := 0
				reports, err := Watch(ctx, func() ([]Report, error) {
					times++
					select {
					case <-time.After(test.took):
					case <-ctx.Done():
					}
					if times > 1 && ctx.Err() != nil {
						return nil, ctx.Err()
					}
					return []Report{test.looks[min(times, len(test.looks))-1]}, nil
				})
				if (err != nil) != (test.until > 0) || len(reports) != 1 || reports[0].Verdict != test.want || times != test.times {
					t.Fatalf("%d looks, %+v, %v, want %d and %s", times, reports, err, test.times, test.want)
				}
				if !strings.Contains(strings.Join(reports[0].Missing, ""), test.says) {
					t.Errorf("missing %q, want %q", reports[0].Missing, test.says)
				}
			})
		})
	}
	down := errors.New("down")
	if reports, err := Watch(t.Context(), func() ([]Report, error) { return nil, down }); reports != nil || !errors.Is(err, down) {
		t.Errorf("Watch() = %v, %v, want the error of the look", reports, err)
	}
}

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
