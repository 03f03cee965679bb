package replica

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"lastitem/internal/testenv"
)

// A replica with a collector sends a trace of each deduction below the client's, and what waits when it ends; one without makes none.
func TestReplicaSendsTraces(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	spans := map[string][]string{} // names, by trace
	systems := map[string]bool{}
	c := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var got collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &got); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, s := range got.ResourceSpans[0].ScopeSpans[0].Spans {
			id := string(s.TraceId)
			spans[id] = append(spans[id], s.Name)
			for _, a := range s.Attributes {
				if a.Key == "db.system.name" {
					systems[a.Value.GetStringValue()] = true
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	redis := testenv.Miniredis(t)
	r := startReplica(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.SQLite(t), Conns: 16, OTLP: c.URL})
	waitReady(t, r)
	send(t, r, "PUT", "/products/101/stock", `{"stock":5}`, http.StatusOK)
	for _, target := range []string{"/deduct_stock/lua-lock", "/deduct_stock/unsafe-sql"} {
		req := httptest.NewRequestWithContext(t.Context(), "POST", target, strings.NewReader(""))
		req.Header.Set("Traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, req)
		if rec.Code != http.StatusOK {
			t.Fatalf("POST %s = %d %s", target, rec.Code, rec.Body)
		}
	}
	r.Close()
	mu.Lock()
	defer mu.Unlock()
	var all []string
	for _, names := range spans {
		all = append(all, names...)
	}
	slices.Sort(all)
	const root = "POST /deduct_stock/{mode}"
	if diff := cmp.Diff([]string{root, root, "append order", "append order", "commit", "lock hold", "lock wait", "read stock", "read stock", "write stock", "write stock"}, all); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"redis": true, "sqlite": true}, systems); diff != "" || len(spans) != 1 {
		t.Errorf("%d traces; db.system.name (-want +got):\n%s", len(spans), diff)
	}
	if plain := openReplica(t); plain.spans != nil || plain.Answered != nil {
		t.Error("a replica without a collector has an exporter")
	}
}
