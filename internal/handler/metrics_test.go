package handler

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/step"
	"lastitem/internal/stock"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var steps step.Stream
		shop := &fakeShop{deduct: func(ctx context.Context, mode string, _ stock.Request) (stock.Receipt, error) {
			steps.At(ctx, step.Waiting, "k")
			time.Sleep(2 * time.Millisecond)
			steps.At(ctx, step.Locked, "k")
			time.Sleep(20 * time.Millisecond)
			steps.At(ctx, step.Released, "k")
			if mode == "setnx" {
				return stock.Receipt{}, &stock.SoldOutError{}
			}
			return stock.Receipt{}, nil
		}}
		h := newHandler(t, shop, func(o *Options) {
			o.Steps = &steps
			o.PoolStats = func() []Pool {
				return []Pool{{Name: "redis", Total: 10, Idle: 4, Waits: 3, Waited: 1500 * time.Millisecond, Timeouts: 1}, {Name: "sql", Total: 2}}
			}
		})
		ask(t, h, "POST", "/deduct_stock/mutex", "")
		ask(t, h, "POST", "/deduct_stock/mutex/", "")
		ask(t, h, "POST", "/deduct_stock/setnx", "")
		ask(t, h, "POST", "/deduct_stock/mutex?quantity=0", "")
		ask(t, h, "POST", "/deduct_stock", "")
		ask(t, h, "POST", "/deduct_stock/made-up-1", "")
		ask(t, h, "POST", "/deduct_stock/made-up-2", "")
		ask(t, h, "GET", "/made-up", "")
		ask(t, h, "GET", "/products/101", "")
		page := ask(t, h, "GET", "/metrics", "").body
		for _, line := range []string{
			`shop_http_requests_total{mode="mutex",outcome="ok",route="/deduct_stock/{mode}"} 2`,
			`shop_http_requests_total{mode="setnx",outcome="sold_out",route="/deduct_stock/{mode}"} 1`,
			`shop_http_requests_total{mode="mutex",outcome="invalid_request",route="/deduct_stock/{mode}"} 1`,
			`shop_http_requests_total{mode="lease-seq",outcome="ok",route="/deduct_stock"} 1`,
			`shop_http_requests_total{mode="",outcome="unknown_mode",route="/deduct_stock/{mode}"} 2`,
			`shop_http_requests_total{mode="",outcome="not_found",route="unmatched"} 1`,
			`shop_http_requests_total{mode="",outcome="ok",route="/products/{id}"} 1`,
			`shop_http_request_duration_seconds_count{mode="setnx",result="refused",route="/deduct_stock/{mode}"} 1`,
			`shop_http_request_duration_seconds_bucket{mode="mutex",result="ok",route="/deduct_stock/{mode}",le="0.01"} 0`,
			`shop_http_request_duration_seconds_bucket{mode="mutex",result="ok",route="/deduct_stock/{mode}",le="0.025"} 2`,
			`shop_lock_wait_seconds_sum{mode="mutex"} 0.004`,
			`shop_lock_hold_seconds_sum{mode="mutex"} 0.04`,
			`shop_lock_hold_seconds_count{mode="setnx"} 1`,
			`shop_http_requests_in_flight 1`,
			`shop_pool_connections{pool="redis"} 10`,
			`shop_pool_connections_idle{pool="redis"} 4`,
			`shop_pool_waits_total{pool="redis"} 3`,
			`shop_pool_wait_seconds_total{pool="redis"} 1.5`,
			`shop_pool_timeouts_total{pool="redis"} 1`,
			`shop_pool_connections{pool="sql"} 2`,
		} {
			if !strings.Contains(page, line+"\n") {
				t.Errorf("/metrics lacks %s", line)
			}
		}
		if strings.Contains(page, "made-up") {
			t.Error("a made-up name became a label")
		}
		if !strings.Contains(page, "go_goroutines") {
			t.Error("/metrics lacks the Go runtime")
		}
	})
}

func TestStepsWithoutATraceAreIgnored(t *testing.T) {
	t.Parallel()
	var steps step.Stream
	h := newHandler(t, &fakeShop{}, func(o *Options) { o.Steps = &steps })
	steps.At(t.Context(), step.Waiting, "k")
	steps.At(t.Context(), step.Locked, "k")
	if page := ask(t, h, "GET", "/metrics", "").body; strings.Contains(page, "shop_lock_wait_seconds_count") {
		t.Error("a lock that belongs to no request was counted")
	}
}

func TestResultOfEveryCode(t *testing.T) {
	t.Parallel()
	want := map[api.Code]audit.Outcome{"": audit.OK, api.SoldOut: audit.Refused, api.OutcomeUnknown: audit.Unknown, api.Internal: audit.Unknown}
	for code := range api.Codes {
		if _, ok := want[code]; !ok {
			want[code] = audit.Declined
		}
	}
	for code, w := range want {
		if got := result(code); got != w {
			t.Errorf("result(%q) = %s, want %s", code, got, w)
		}
	}
}

func TestSampledRequestLog(t *testing.T) {
	t.Parallel()
	for every, want := range map[uint64]int{0: 0, 1: 6, 3: 2} {
		var buf bytes.Buffer
		h := newHandler(t, &fakeShop{}, func(o *Options) {
			o.LogEvery = every
			o.Log = slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		for range 6 {
			ask(t, h, "POST", "/deduct_stock", "")
		}
		if got := strings.Count(buf.String(), "msg=request"); got != want {
			t.Errorf("every %d: %d of 6 requests logged, want %d", every, got, want)
		}
	}
}
