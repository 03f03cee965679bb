package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lastitem/contract/api"
	"lastitem/internal/cli"
	"lastitem/internal/stock"
	"lastitem/loadtest/postmortem"
)

const judgeLogs = "../../loadtest/postmortem/testdata/"

// 'shop judge' ends with the verdict's code, in every form; a mistake of the command line or of a file ends with 2.
func TestJudge(t *testing.T) {
	t.Parallel()
	flash := []string{"judge", "--orders", judgeLogs + "flash-orders.csv", "--stock-log", judgeLogs + "flash-stock.csv"}
	shoes := judgeLogs + "shoes-orders.csv"
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{flash, cli.ExitFailed, "  shown by    mode unsafe-sql (hazard: threads)\n"},
		{append(slices.Clone(flash), "--lang", "zh"), cli.ExitFailed, "模式 unsafe-sql（场景：threads）"},
		{append(slices.Clone(flash), "-o", "json"), cli.ExitFailed, `"pattern`},
		{append(slices.Clone(flash), "-o", "markdown"), cli.ExitFailed, "```text\nBROKEN (O)\n"},
		{[]string{"judge", "--orders", shoes, "--columns", "key=buyer", "--stock", "25", "--stock-after", "0"},
			cli.ExitFailed,
			"key=buyer"},
		{[]string{"judge", "--orders", judgeLogs + "fine-orders.csv", "--stock", "20", "--stock-after", "0"}, cli.ExitOK,
			"EXACT"},
		{[]string{"judge", "--orders", judgeLogs + "fine-orders.csv", "--stock", "20"}, exitInconclusive, "INCONCLUSIVE"},
		{[]string{"judge"}, cli.ExitUsage, "give --orders or --history"},
		{[]string{"judge", "--orders", shoes, "--stock", "-1"}, cli.ExitUsage, "--stock -1: want a number from 0"},
		{[]string{"judge", "--orders", shoes, "--columns", "key"}, cli.ExitUsage, "want ROLE=NAME"},
		{[]string{"judge", "--orders", shoes, "--zone", "Mars"}, cli.ExitUsage, "--zone: unknown time zone Mars"},
		{[]string{"judge", "--orders", filepath.Join(judgeLogs, "none.csv")}, cli.ExitUsage, "no such file"},
	} {
		code, out, errOut := commandLine(t.Context(), newRoot("en"), c.args...)
		if code != c.code || !strings.Contains(out+errOut, c.says) {
			t.Errorf("shop %q exits %d and says\n%s%s\nwant %d and %q", c.args, code, out, errOut, c.code, c.says)
		}
	}
}

// A mode that a pattern names shows its letter under that hazard, and the mode that stops it does not.
func TestPatternsAreClaimed(t *testing.T) {
	t.Parallel()
	modes := map[string]stock.Mode{}
	for _, m := range stock.Modes() {
		modes[m.Name] = m
	}
	for _, p := range postmortem.Patterns("en") {
		shows := func(mode string) (shows bool) {
			m := modes[mode].API()
			for _, s := range m.Stores {
				shows = shows || strings.Contains(string(m.Claim(s, api.Hazard(p.Hazard))), p.Letter)
			}
			return shows
		}
		if _, there := modes[p.Stops]; !there || shows(p.Stops) {
			t.Errorf("%s: mode %s does not stop %s", p.Name, p.Stops, p.Letter)
		}
		if p.Mode != "" && !shows(p.Mode) {
			t.Errorf("%s: mode %s does not show %s under %s", p.Name, p.Mode, p.Letter, p.Hazard)
		}
	}
}
