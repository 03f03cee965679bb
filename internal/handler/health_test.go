package handler

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"lastitem/internal/api"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{}, func(o *Options) { o.Ready = func([]string) error { return errors.New("down") } })
	h.Drain()
	a := ask(t, h, "GET", "/healthz", "")
	if want := `{"status":"ok","replica":"2"}` + "\n"; a.StatusCode != http.StatusOK || a.body != want {
		t.Errorf("/healthz = %d %s", a.StatusCode, a.body)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	var log *bytes.Buffer
	down := map[string]error{}
	h := newHandler(t, &fakeShop{}, func(o *Options) {
		log = logged(o)
		o.Ready = func(exclude []string) error {
			for name, err := range down {
				if !slices.Contains(exclude, name) {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			return nil
		}
	})
	ready := func(query string, want int, detail string) {
		t.Helper()
		a := ask(t, h, "GET", "/readyz"+query, "")
		if a.StatusCode != want || !strings.Contains(a.body, detail) {
			t.Errorf("/readyz%s = %d %s, want %d with %q", query, a.StatusCode, a.body, want, detail)
		}
		if want == http.StatusServiceUnavailable && problem(t, a).Code != api.BackendUnavailable {
			t.Errorf("/readyz%s = %s", query, a.body)
		}
	}
	ready("", http.StatusOK, `"ready"`)
	down["redis"] = errors.New("OOM command not allowed")
	ready("", http.StatusServiceUnavailable, "redis: OOM command not allowed")
	ready("?exclude=sql", http.StatusServiceUnavailable, "redis: OOM command not allowed")
	ready("?exclude=redis", http.StatusOK, `"ready"`)
	ready("?exclude=sql,redis", http.StatusOK, `"ready"`)
	ready("?exclude=kafka", http.StatusBadRequest, "must be redis or sql")
	ready("?exclude=", http.StatusBadRequest, "must be redis or sql")
	ready("?without=redis", http.StatusBadRequest, "unknown field")
	if log.Len() > 0 {
		t.Errorf("logged: %s", log)
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
