package replica

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/internal/api"
	"lastitem/internal/localstack"
	"lastitem/internal/testenv"
)

// An etcd that has no space left answers reads and refuses writes: that costs the modes that need it, at once and by name, and no
// other; and they come back without a restart when somebody has made space and ended the alarm.
func TestFullEtcd(t *testing.T) {
	t.Parallel()
	etcd := testenv.OwnWith(t, localstack.Options{EtcdArgs: []string{"--quota-backend-bytes=4194304"}}, localstack.Etcd).Etcd
	r := openWithServices(t, Config{Etcd: etcd.URL})
	modes := []string{"etcd", "etcd-txn"}
	for _, mode := range modes {
		awaitMode(t, r, mode, func(m api.Mode) bool { return m.Available })
	}
	send(t, r, http.MethodPut, "/products/101/stock", `{"stock":9}`, http.StatusOK)
	send(t, r, http.MethodPost, "/deduct_stock/etcd-txn", "", http.StatusOK)

	admin := (&testenv.Coordination{Addr: etcd.Addr}).EtcdClient(t)
	fillEtcd(t, admin)
	for _, mode := range modes {
		awaitMode(t, r, mode, func(m api.Mode) bool { return !m.Available && strings.Contains(m.Why, "space exceeded") })
		if got := send(t, r, http.MethodPost, "/deduct_stock/"+mode, "", http.StatusServiceUnavailable); !strings.Contains(got, "backend_unavailable") {
			t.Errorf("%s = %s, want backend_unavailable", mode, got)
		}
	}
	for _, mode := range []string{"redis-lua", "lease-seq", "sql-atomic"} {
		send(t, r, http.MethodPost, "/deduct_stock/"+mode, "", http.StatusOK)
	}
	send(t, r, http.MethodGet, "/products/101", "", http.StatusOK) // reads need no space
	send(t, r, http.MethodGet, "/readyz", "", http.StatusOK)       // the other modes are served
	if got := send(t, r, http.MethodGet, "/metrics", "", http.StatusOK); !strings.Contains(got, `shop_backend_up{backend="etcd"} 0`) {
		t.Error("shop_backend_up of etcd is not 0")
	}

	makeSpace(t, admin)
	for _, mode := range modes {
		awaitMode(t, r, mode, func(m api.Mode) bool { return m.Available })
		send(t, r, http.MethodPost, "/deduct_stock/"+mode+"?quantity=1", "", http.StatusOK)
	}
}

// fillEtcd writes to the key "filling" until etcd raises its alarm.
func fillEtcd(t *testing.T, c *clientv3.Client) {
	t.Helper()
	for range 1000 {
		_, err := c.Put(t.Context(), "filling", strings.Repeat("x", 128<<10))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("etcd takes more than its quota")
}

// makeSpace does what etcd's manual says of an alarm for space: compact, defragment, disarm.
func makeSpace(t *testing.T, c *clientv3.Client) {
	t.Helper()
	deleted, err := c.Delete(t.Context(), "filling")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Compact(t.Context(), deleted.Header.Revision, clientv3.WithCompactPhysical())
	if err == nil {
		_, err = c.Defragment(t.Context(), c.Endpoints()[0])
	}
	if err == nil {
		_, err = c.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	}
	if err != nil {
		t.Fatal(err)
	}
}
