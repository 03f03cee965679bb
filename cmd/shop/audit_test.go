package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lastitem/internal/api"
	"lastitem/internal/audit"
)

// ledgerOf serves a ledger of ten units in Redis, of which sold were ordered and left are left; SQL was not touched.
func ledgerOf(t *testing.T, sold int, left int64) string {
	t.Helper()
	l := api.Ledger{
		ProductID: 101,
		Initial:   map[api.Store]int64{api.Redis: 10, api.SQL: 10},
		Stock:     map[api.Store]int64{api.Redis: left, api.SQL: 10},
	}
	for i := range sold {
		remaining := int64(max(0, 9-i))
		l.Orders = append(l.Orders, api.Order{
			OrderID: "order-" + string(rune('a'+i)), ProductID: 101, Quantity: 1, Remaining: &remaining, Store: api.Redis, Mode: "unsafe",
		})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /products/101/ledger", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(l); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func TestAuditCommand(t *testing.T) {
	t.Parallel()
	exact, broken, untouched := ledgerOf(t, 10, 0), ledgerOf(t, 11, 0), ledgerOf(t, 0, 10)
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"exact", []string{"--url", exact}, exitOK, "redis · EXACT"},
		{"exact, the other store", []string{"--url", exact, "--store", "sql"}, exitInconclusive, "sql · VACUOUS"},
		{"broken", []string{"--url", broken}, exitFailed, "unit 10 was sold 2 times: order order-j; order order-k"},
		{"broken, in Chinese", []string{"--url", broken, "--lang", "zh"}, exitFailed, "超卖 1"},
		{"broken, as JSON", []string{"--url", broken, "-o", "json"}, exitFailed, `"verdict": "BROKEN"`},
		{"nothing sold", []string{"--url", untouched}, exitInconclusive, "nothing was sold"},
		{"no such product", []string{"--url", exact, "--product", "7"}, exitInconclusive, ""},
		{"no such store", []string{"--url", exact, "--store", "disk"}, exitUsage, ""},
		{"no product", []string{"--url", exact, "--product", "0"}, exitUsage, "--product 0"},
		{"no such language", []string{"--url", exact, "--lang", "fr"}, exitUsage, ""},
		{"no URL", []string{"--url", "localhost"}, exitUsage, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := commandLine(t.Context(), newAudit("en"), c.args...)
			if code != c.code || !strings.Contains(out+errOut, c.says) {
				t.Errorf("shop audit %q exits %d and says\n%s%s\nwant %d and %q", c.args, code, out, errOut, c.code, c.says)
			}
		})
	}
	// Of a store that was not read, the text has no numbers.
	_, out, _ := commandLine(t.Context(), newAudit("en"), "--url", exact, "--store", "etcd")
	if !strings.Contains(out, "how much stock etcd held") || strings.Contains(out, "before") || strings.Contains(out, "oversold") {
		t.Errorf("shop audit of a store that is not there says\n%s\nwant no numbers", out)
	}
	if exitFor(audit.Verdict("")) == nil {
		t.Error("a verdict nobody knows is green")
	}
}
