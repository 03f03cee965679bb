package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"lastitem/contract/api"
	"lastitem/internal/cli"
	"lastitem/testkit"
	"lastitem/testkit/fakeshop"
)

// A drift that stays is exit code 3, and so is a refusal; a repaired one is 0.
func TestReconcileCommand(t *testing.T) {
	t.Parallel()
	url := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := api.Reconciliation{ProductID: 101, Front: 3, InFlight: 2, Book: 6, Drift: 1, Leaked: 1}
		asked, err := io.ReadAll(r.Body)
		testkit.Check(t, err)
		switch {
		case strings.Contains(r.URL.Path, "/9/"):
			fakeshop.Refuse(w, api.ReconcileRefused, "it is not sold by tickets")
			return
		case strings.Contains(string(asked), "true"):
			body.Repaired = 1
		}
		fakeshop.Send(w, body)
	})).URL
	for _, c := range []struct {
		args []string
		code int
		said string
	}{
		{nil, exitInconclusive, "product 101: Redis 3, in flight 2, SQL 6; drift 1 (leaked 1, forgotten 0), repaired 0, " +
			"stuck 0\n"},
		{[]string{"--repair", "-o", "json"}, cli.ExitOK, `"repaired":1`},
		{[]string{"--repair", "--lang", "zh"}, cli.ExitOK, "已修正 1"},
		{[]string{"--product", "9"}, exitInconclusive, "it is not sold by tickets"},
		{[]string{"--product", "0"}, cli.ExitUsage, "want a number from 1"},
		{[]string{"--every", "-1s"}, cli.ExitUsage, "want a time from 0"},
	} {
		args := append([]string{"reconcile", "--url", url, "--token", "t"}, c.args...)
		code, out, errOut := commandLine(t.Context(), newRoot("en"), args...)
		if code != c.code || !strings.Contains(out+errOut, c.said) {
			t.Errorf("shop %q: exit %d, %s%s; want exit %d, %s", args, code, out, errOut, c.code, c.said)
		}
	}
}
