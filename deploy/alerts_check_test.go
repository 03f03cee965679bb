package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// promtool accepts the rules and the configuration, and the series of alerts_test.yml fire what they should and nothing
// else.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	promtool := testenv.Program(t, "promtool", "prometheus")
	for _, args := range [][]string{{"check", "config", "prometheus.yml"}, {"test", "rules", "alerts_test.yml"}} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// Each alert has a section in both runbooks and a test of its own, and reads metrics that the shop has.
func TestAlertsAreExplained(t *testing.T) {
	t.Parallel()
	rules, played := read(t, "alerts.yml"), read(t, "alerts_test.yml")
	names := regexp.MustCompile(`alert: (\w+)\n`).FindAllStringSubmatch(rules, -1)
	if len(names) == 0 {
		t.Fatal("no alert found in alerts.yml")
	}
	for _, page := range []string{"runbook.md", "runbook.zh.md"} {
		text := read(t, filepath.Join("..", "docs", page))
		for _, name := range names {
			if !strings.Contains(text, "\n## "+name[1]+"\n") {
				t.Errorf("docs/%s has no section %s", page, name[1])
			}
		}
		const others = 1 // Traces
		if got := strings.Count(text, "\n## "); got != len(names)+others || !strings.Contains(text, "\n## Traces\n") {
			t.Errorf("docs/%s has %d sections, want one for each of %d alerts, and Traces", page, got, len(names))
		}
	}
	for _, name := range names {
		if !strings.Contains(played, "alertname: "+name[1]+"\n") {
			t.Errorf("alerts_test.yml does not fire %s", name[1])
		}
		if want := "runbook: docs/runbook.md#" + strings.ToLower(name[1]) + "\n"; !strings.Contains(rules, want) {
			t.Errorf("alert %s does not say %q", name[1], want)
		}
	}
	code := sources(t)
	for _, metric := range regexp.MustCompile(`shop_[a-z_]+`).FindAllString(rules, -1) {
		metric = strings.TrimSuffix(metric, "_bucket")
		if !strings.Contains(code, `"`+metric+`"`) {
			t.Errorf("alerts.yml reads %s, and nothing in cmd or internal has that name", metric)
		}
	}
}

// sources is all the code of the shop that is no test.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range []string{"../cmd", "../internal"} {
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				all.WriteString(read(t, path))
			}
			return err
		})
		testkit.Must(t, err)
	}
	return all.String()
}
