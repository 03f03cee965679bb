package localstack

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A replica that is started again long after its first start is given the same time to join its group of consumers.
func TestReplicaReadyAfterRestart(t *testing.T) {
	var available atomic.Bool
	replica := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/modes/kafka" && !available.Load() {
			_, _ = io.WriteString(w, `{"available":false,"why":"it is joining"}`)
		} else {
			_, _ = io.WriteString(w, `{"available":true}`)
		}
	}))
	t.Cleanup(replica.Close)
	addr := strings.TrimPrefix(replica.URL, "http://")
	synctest.Test(t, func(t *testing.T) {
		s := &Stack{Kafka: Service{URL: "k:1"}, opts: Options{Log: t.Logf}}
		ready := s.replicaReady("1")
		for _, start := range []string{"first", "second"} {
			available.Store(false)
			if err := ready(t.Context(), addr); err == nil || err.Error() != "it is joining" {
				t.Errorf("%s start: ready = %v before it has joined, want why not", start, err)
			}
			available.Store(true)
			if err := ready(t.Context(), addr); err != nil {
				t.Errorf("%s start: ready = %v, want nil", start, err)
			}
			time.Sleep(2 * kafkaWithin)
		}
		available.Store(false)
		_ = ready(t.Context(), addr)
		time.Sleep(2 * kafkaWithin)
		if err := ready(t.Context(), addr); err != nil {
			t.Errorf("a replica that does not join in time: ready = %v, want nil: it goes on without the mode", err)
		}
	})
}
