package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, line := range []string{"stock 101", "audit", "loadtest --mode mutex", "migrate --sql u:x@tcp(127.0.0.1:1)/shop", "demo --redis redis://127.0.0.1:1"} {
		if code, _, errOut := commandLine(ctx, newRoot("en"), strings.Fields(line)...); code != exitInterrupted {
			t.Errorf("shop %s after Ctrl-C: exit %d, %s; want %d", line, code, errOut, exitInterrupted)
		}
	}
	// A setting that is wrong is still told as such.
	if code, _, errOut := commandLine(ctx, newRoot("en"), "serve", "--conns", "many"); code != exitUsage {
		t.Errorf("shop serve with a wrong setting after Ctrl-C: exit %d, %s; want %d", code, errOut, exitUsage)
	}
}

// Whether the results can be written is asked before there are any.
func TestResultsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	url, dir := startFakeShop(t, &fakeShop{deducted: func() { t.Error("a request was sent") }}), t.TempDir()
	for _, c := range []struct {
		command string
		flag    string
	}{{"demo", "--out"}, {"loadtest", "--out"}, {"loadtest", "--history"}} {
		for _, file := range []string{"/dev/null/x.json", dir} {
			args := []string{c.command, "--url", url, "--token", fakeToken, "--mode", "lua-lock", c.flag, file}
			code, out, errOut := commandLine(t.Context(), newRoot("en"), args...)
			if code != exitFailed || !strings.Contains(errOut, "shop: "+c.flag+": ") {
				t.Errorf("shop %q: exit %d, %s%s; want exit %d and the flag", args, code, out, errOut, exitFailed)
			}
		}
	}
	if err := writable(dir + "/a/b.json"); err != nil {
		t.Errorf("writable() = %v for a file in a directory that can be made", err)
	}
	if _, err := os.Stat(dir + "/a/b.json"); err == nil {
		t.Error("the file is there before the results are")
	}
}

// wantRefused wants a command line refused before anything is started, and the error to say why.
func wantRefused(t *testing.T, cmd *cobra.Command, want string, args ...string) {
	t.Helper()
	if code, _, said := commandLine(t.Context(), cmd, args...); code != exitUsage || !strings.Contains(said, want) {
		t.Errorf("shop %q: exit %d, %q; want exit %d and %q", args, code, said, exitUsage, want)
	}
}

// A wrong command line is told with the help of the command that it was meant for.
func TestUsage(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"demo --nope":                           "unknown flag: --nope\nTry 'shop demo --help'.\n",
		"demo --vus many":                       "--vus \"many\": want a whole number\nTry 'shop demo --help'.\n",
		"loadtest --wait 10":                    "--wait \"10\": want a duration with its unit, such as 10s or 500ms\nTry 'shop loadtest --help'.\n",
		"loadtest --rate x":                     "--rate \"x\": want a number\n",
		"loadtest --ok-status a":                "want whole numbers, separated by commas\n",
		"up --no-restart=perhaps":               "want true or false\n",
		"up --port 99999999999999999999":        "64 bits\n",
		"up --port 65536":                       "--port 65536",
		"up --replicas 0":                       "--replicas 0",
		"up --backend docker":                   "--backend docker",
		"up now":                                "unexpected argument \"now\": shop up takes flags only\nTry 'shop up --help'.\n",
		"stock":                                 "an argument is missing: want shop stock PRODUCT [UNITS]\n",
		"stock 101 --segments 3":                "--segments and --if-new go with UNITS",
		"stock 101 --if-new":                    "--segments and --if-new go with UNITS",
		"stock 101 5 --segments=-1":             "--segments -1: want a number from 0",
		"stock 0":                               "PRODUCT \"0\": want a number from 1",
		"demo --backend docker":                 "--backend docker: want auto, embedded or local",
		"modes mutexx":                          "shop: unknown mode \"mutexx\" (did you mean \"mutex\"?)",
		"rolling --rate 0":                      "--rate 0: want more than 0",
		"rolling --rate NaN":                    "--rate NaN: want more than 0",
		"rolling --duration 0":                  "--duration 0s: want more than 0",
		"rolling --mode=":                       "--mode names no mode",
		"stock 101 5 6":                         "unexpected argument \"6\": want shop stock",
		"loadtest --request GET":                "--request must be like",
		"demos":                                 "Try 'shop --help'.\n",
		"modes --docs x --out y":                "these flags exclude each other: --docs --out\n",
		"settings --docs x --out y":             "these flags exclude each other: --docs --out\n",
		"loadtest --mode mutex --request GET/x": "Try 'shop loadtest --help'.\n",
	} {
		wantRefused(t, newRoot("en"), want, strings.Fields(line)...)
	}
}
