package handler

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/api"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{}, func(o *Options) { o.Ready = func(context.Context) error { return errors.New("down") } })
	h.Drain()
	a := ask(t, h, "GET", "/healthz", "")
	if want := `{"status":"ok","replica":"2"}` + "\n"; a.StatusCode != http.StatusOK || a.body != want {
		t.Errorf("/healthz = %d %s", a.StatusCode, a.body)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, down := 0, error(nil)
		var log *bytes.Buffer
		h := newHandler(t, &fakeShop{}, func(o *Options) {
			log = logged(o)
			o.Ready = func(ctx context.Context) error {
				if _, ok := ctx.Deadline(); !ok {
					t.Error("Ready may take for ever")
				}
				asked++
				return down
			}
		})
		for range 3 {
			if a := ask(t, h, "GET", "/readyz", ""); a.StatusCode != http.StatusOK {
				t.Errorf("/readyz = %d %s", a.StatusCode, a.body)
			}
		}
		down = errors.New("redis: connection refused")
		if a := ask(t, h, "GET", "/readyz", ""); a.StatusCode != http.StatusOK || asked != 1 {
			t.Errorf("/readyz within the second = %d, asked %d times, want 200 and 1", a.StatusCode, asked)
		}
		time.Sleep(time.Second)
		for range 2 {
			a := ask(t, h, "GET", "/readyz", "")
			if p := problem(t, a); p.Code != api.BackendUnavailable || !strings.Contains(p.Detail, "redis: connection refused") {
				t.Errorf("/readyz with Redis down = %s", a.body)
			}
		}
		if asked != 2 {
			t.Errorf("asked %d times, want 2", asked)
		}
		if log.Len() > 0 {
			t.Errorf("logged: %s", log)
		}
	})
}

func TestReadyWithoutBackends(t *testing.T) {
	t.Parallel()
	if a := ask(t, newHandler(t, &fakeShop{}), "GET", "/readyz", ""); a.StatusCode != http.StatusOK {
		t.Errorf("/readyz = %d %s", a.StatusCode, a.body)
	}
}

func TestAProbeThatGivesUpIsNotABackendThatIsDown(t *testing.T) {
	t.Parallel()
	r := readiness{ask: func(ctx context.Context) error { return ctx.Err() }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.check(ctx); err != nil {
		t.Errorf("check() = %v", err)
	}
}

func TestDraining(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{})
	h.Drain()
	a := ask(t, h, "GET", "/readyz", "")
	if p := problem(t, a); p.Code != api.BackendUnavailable || !strings.Contains(p.Detail, "draining") {
		t.Errorf("/readyz while draining = %s", a.body)
	}
	if a := ask(t, h, "POST", "/deduct_stock", ""); a.StatusCode != http.StatusOK {
		t.Errorf("a deduction while draining = %d", a.StatusCode)
	}
}
