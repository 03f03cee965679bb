package main

import (
	"slices"
	"testing"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/localstack"
	"lastitem/internal/testenv"
	"lastitem/loadtest"
)

// On a slow durable MySQL many requests of a plan are told that the lock is busy, or that they were overtaken, and the plan's requests
// are spent before the stock is: the run goes on until somebody is told that it is out, and counts. Without that it is vacuous.
func TestRunOnASlowDurableMySQL(t *testing.T) {
	testenv.Slow(t, "each statement waits for a slow network and a durable disk")
	t.Parallel()
	testenv.Installed(t, localstack.Redis, localstack.MySQL, localstack.Nginx)
	stack := startStack(t, localstack.Options{
		Replicas: 1, Backend: localstack.Local, Only: []string{localstack.Redis, localstack.MySQL}, RTT: 3 * time.Millisecond,
		SQLConf: []string{"--log-bin=bin", "--sync-binlog=1"}, // innodb_flush_log_at_trx_commit is 1 anyway
	})
	control, err := loadtest.NewControl(stack.URL, stack.Token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(control.Close)
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
