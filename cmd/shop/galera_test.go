package main

import (
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"lastitem/internal/cli"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// With the documented setting the modes that take units in the database are exact on two writers of Galera, which may
// end a transaction of one between any two of its statements.
func TestTwoWritersOfGalera(t *testing.T) {
	testenv.Slow(t, "starts two nodes of Galera, and loads them")
	nodes, redis, shop := testenv.Galera(t), testenv.Redis(t), program(t)
	const token = "t0ken-of-the-galera-test"
	var replicas []string
	for i, dsn := range nodes {
		addr := testkit.FreePort(t)
		cmd := exec.CommandContext(t.Context(), shop, "serve", "--listen", addr, "--replica", strconv.Itoa(i+1))
		cmd.Env = append(os.Environ(), "SHOP_ADMIN_TOKEN="+token, "SHOP_REDIS="+redis.URL, "SHOP_REDIS_PREFIX="+redis.Prefix,
			"SHOP_SQL="+dsn+"?wsrep_sync_wait=1")
		testkit.Must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Wait() }) // it was killed
		replicas = append(replicas, "http://"+addr)
	}
	testkit.NoError(t, "the tables are made", func() error {
		return exec.CommandContext(t.Context(), shop, "migrate", "--sql", nodes[0]).Run()
	})
	for _, replica := range replicas {
		testkit.Until(t, replica+" is ready, with both backends", func() bool {
			var ready struct{ Out []string }
			_, err := get(t.Context(), replica+"/readyz", &ready)
			return err == nil && len(ready.Out) == 0
		})
	}
	var turn atomic.Int64
	balancer := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to, _ := url.Parse(replicas[turn.Add(1)%2])
		r.SetURL(to)
	}})
	t.Cleanup(balancer.Close)
	for modes, plan := range map[string]string{
		"sql-one-trip,sql-atomic,idempotent,queue,lease-seq": "--vus 48 --requests 600 --stock 400 --wait 10s",
		"reserve-unit,reserve-sql":                           "--plan reserve --requests 600 --stock 60",
	} {
		code, out, errOut := commandLine(t.Context(), newLoadtest("en"), append([]string{"--url", balancer.URL, "--token",
			token, "--mode", modes, "--store", "sql"}, strings.Fields(plan)...)...)
		if t.Log(out); code != cli.ExitOK || strings.Count(out, "exact ✓") != strings.Count(modes, ",")+1 {
			t.Errorf("%s: exit code %d, want 0, and each seen to be exact:\n%s", modes, code, errOut)
		}
	}
}
