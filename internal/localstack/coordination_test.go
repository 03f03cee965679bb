package localstack

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"lastitem/internal/testenv/need"
)

// coordinationBackends are those that are installed or, by SHOP_TEST_REQUIRE, must be.
func coordinationBackends(t *testing.T) (all []string, missing error) {
	t.Helper()
	for _, b := range []string{Etcd, ZooKeeper, Consul} {
		if _, err := Find(b); err == nil {
			all = append(all, b)
		} else {
			need.Without(t, b, err)
			missing = errors.Join(missing, err)
		}
	}
	return all, missing
}

func TestCoordinationStartsAndEnds(t *testing.T) {
	t.Parallel()
	need.NotQuick(t, "etcd, ZooKeeper or Consul")
	all, missing := coordinationBackends(t)
	if len(all) == 0 {
		need.Missing(t, "etcd, ZooKeeper or Consul", missing)
	}
	s := startStack(t, Options{Only: all})
	tr := partsOf(s)
	for _, b := range all {
		sv := *s.extra(b)
		if versionNumber.FindString(sv.Kind) == "" || !strings.HasSuffix(sv.URL, sv.Addr) || sv.PID == 0 {
			t.Errorf("%s = %+v, want a version, a URL and a process", b, sv)
		}
		t.Logf("%s: %s", b, sv.Kind)
	}
	if s.ZooKeeper.Addr != "" {
		if err := zooKeeperSession(t.Context(), s.ZooKeeper.Addr); err != nil {
			t.Errorf("ZooKeeper gives no session: %v", err)
		}
	}
	if s.Consul.URL != "" {
		wantSession(t, s.Consul.URL)
	}
	if s.Redis.PID != 0 || s.SQL.URL != "" {
		t.Errorf("started %q and %q, which were not asked for", s.Redis.Kind, s.SQL.Kind)
	}
	wantCleanEnd(t, s, tr)
}

// wantSession fails unless the agent makes sessions, which it does later than it writes keys.
func wantSession(t *testing.T, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/v1/session/create", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := probes.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		t.Errorf("a session is refused with %s", res.Status)
	}
}

// Consul knows the port grpc_tls from 1.14 on, and nginx the flag -e from 1.19.5 on.
func TestAtLeast(t *testing.T) {
	t.Parallel()
	for version, want := range map[string][2]bool{
		"1.8.7": {}, "1.13.9": {}, "1.14.0": {true, false}, "1.19.4": {true, false}, "1.19.5": {true, true}, "1.22": {true, true}, "2.0.0": {true, true}, "": {},
	} {
		if got := [2]bool{atLeast(version, 1, 14), atLeast(version, 1, 19, 5)}; got != want {
			t.Errorf("%q is at least 1.14 and 1.19.5: %t, want %t", version, got, want)
		}
	}
}
