package main

import (
	"strings"
	"testing"
)

// A wrong command line is told with the help of the command that it was meant for.
func TestUsage(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"demo --nope":                           "unknown flag: --nope\nTry 'shop demo --help'.\n",
		"demo --vus many":                       "--vus \"many\": want a whole number\nTry 'shop demo --help'.\n",
		"loadtest --wait 10":                    "--wait \"10\": want a duration with its unit, such as 10s or 500ms\nTry 'shop loadtest --help'.\n",
		"loadtest --rate x":                     "--rate \"x\": want a number\n",
		"loadtest --ok-status a":                "want whole numbers, separated by commas\n",
		"up --json=perhaps":                     "want true or false\n",
		"up --port 99999999999999999999":        "64 bits\n",
		"up now":                                "unexpected argument \"now\": shop up takes flags only\nTry 'shop up --help'.\n",
		"stock":                                 "an argument is missing: want shop stock PRODUCT [UNITS]\n",
		"stock 101 5 6":                         "unexpected argument \"6\": want shop stock",
		"demos":                                 "Try 'shop --help'.\n",
		"modes --json --markdown":               "Try 'shop modes --help'.\n",
		"loadtest --mode mutex --request GET/x": "Try 'shop loadtest --help'.\n",
	} {
		code, _, errOut := commandLine(t.Context(), newRoot(), strings.Fields(line)...)
		if code != exitUsage || !strings.Contains(errOut, want) {
			t.Errorf("shop %s: exit %d, %q; want exit %d, %q", line, code, errOut, exitUsage, want)
		}
	}
}
