package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// /metrics says which build answers, so that a deploy that stopped half-way can be seen, and which backends can be used.
func TestReplicaMetrics(t *testing.T) {
	t.Parallel()
	c := config{Replica: "7", Redis: testenv.Miniredis(t).URL, DefaultMode: "noop", LockTTL: time.Second, Conns: 1}
	r, err := newReplica(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	page := httptest.NewRecorder()
	r.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if want := `version="` + version() + `"} 1`; !strings.Contains(page.Body.String(), "shop_build_info{go=\"go1.") || !strings.Contains(page.Body.String(), want) {
		t.Errorf("no shop_build_info with %s in\n%s", want, page.Body.String())
	}
	up := func() string {
		page := httptest.NewRecorder()
		r.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		_, rest, _ := strings.Cut(page.Body.String(), "shop_backend_up{backend=\"redis\"} ")
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	wait.Until(t, "shop_backend_up of a Redis that answers is 1", func() bool { return up() == "1" })
}
