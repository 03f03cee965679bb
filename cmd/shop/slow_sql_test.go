package main

import (
	"log/slog"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/backend"
	"lastitem/internal/localstack"
	"lastitem/internal/replica"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
	"lastitem/loadtest"
)

// slowly is a proxy that lets each piece of what clients say wait before it goes on to the server.
func slowly(t *testing.T, server string, wait time.Duration) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	hand := func(to, from net.Conn, wait time.Duration) {
		defer func() { _, _ = to.Close(), from.Close() }()
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			time.Sleep(wait)
			if _, wrong := to.Write(buf[:n]); err != nil || wrong != nil {
				return
			}
		}
	}
	running.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				_ = near.Close()
				continue
			}
			running.Go(func() { hand(far, near, wait) })
			running.Go(func() { hand(near, far, 0) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); running.Wait() })
	return l.Addr().String()
}

// On a slow durable MySQL many requests of a plan are told that the lock is busy, or that they were overtaken, and the plan's requests
// are spent before the stock is: the run goes on until somebody is told that it is out, and counts. Without that it is vacuous.
func TestRunOnASlowDurableMySQL(t *testing.T) {
	testenv.Slow(t, "each statement waits for a slow network and a durable disk")
	t.Parallel()
	durable := localstack.Options{SQLConf: []string{"--log-bin=bin", "--sync-binlog=1"}} // innodb_flush_log_at_trx_commit is 1 anyway
	cfg, err := mysql.ParseDSN(testenv.OwnWith(t, durable, localstack.MySQL).SQL.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Addr = slowly(t, cfg.Addr, 3*time.Millisecond)
	c := replica.Config{
		Replica: "1", Token: "t0ken", DefaultMode: "lease-seq", LockTTL: time.Minute, Prefix: "shop:",
		Redis: testenv.Miniredis(t).URL, SQL: cfg.FormatDSN(), Conns: 32,
	}
	r, err := replica.New(c, replica.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	if _, err := backend.Migrate(t.Context(), r.Backends.DB); err != nil {
		t.Fatal(err)
	}
	wait.NoError(t, "ready", func() error { return r.Backends.Ready() })
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	control, err := loadtest.NewControl(srv.URL, "t0ken")
	if err != nil {
		t.Fatal(err)
	}
	control.Replicas = 1
	modes, err := control.Modes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		mode    string
		sellOut time.Duration
		want    audit.Verdict
	}{{"sql-unique", 0, audit.Vacuous}, {"sql-unique", time.Minute, audit.Exact}, {"sql-version", time.Minute, audit.Exact}} {
		mode := modes[slices.IndexFunc(modes, func(m api.Mode) bool { return m.Name == tt.mode })]
		plan := loadtest.Plan{VUs: 32, Requests: 45, Stock: 30, Wait: 20 * time.Millisecond, SellOut: tt.sellOut}
		res, err := loadtest.Run(t.Context(), control, mode, plan, nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := res.Verdicts[0]; v.Verdict != tt.want || (res.Finding == audit.Confirmed) != (tt.want == audit.Exact) {
			t.Errorf("%s, may go on for %s: %s, %s, %d sent, %d of them extra; want %s\n%s",
				tt.mode, tt.sellOut, v.Verdict, res.Finding, res.Sent, res.Extra, tt.want, v.Text("en"))
		}
	}
}
