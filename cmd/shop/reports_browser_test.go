package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestReports opens the HTML reports of each command in a browser: axe-core finds nothing, and nothing is wider than the window.
func TestReports(t *testing.T) {
	t.Parallel()
	shop := program(t)
	balancer := strings.Fields(startUntil(t, "  balancer ", shop, "up", "--port", "0", "--backend", "embedded", "--no-console"))[0]
	dir := t.TempDir()
	b := openTab(t, "file://"+dir)
	script := axeScript(t)
	for i, lang := range []string{"en", "zh"} {
		file := func(name string) string { return filepath.Join(dir, name+"-"+lang) }
		report := func(want int, name string, args ...string) {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), shop, append([]string{name, "--html", file(name) + ".html", "--lang", lang}, args...)...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "SHOP_ADMIN_TOKEN=t0ken")
			out, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != want {
				t.Fatalf("shop %s: exit %d, %v, want %d\n%s", name, code, err, want, out)
			}
		}
		report(exitOK, "demo", "--mode", "unsafe,lua-lock,zookeeper", "--stock", "200", "--backend", "embedded", "--out", file("demo")+".json")
		report(exitThreshold, "loadtest", "--url", balancer, "--mode", "lua-lock,redis-lua", "--stock", "200",
			"--threshold", "oversold==0", "--threshold", "p(50)<1us")
		report(exitOK, "lab", "--mode", "unsafe", "--fault", "threads")
		for _, name := range []string{"demo", "loadtest", "lab"} {
			b.do("open", chromedp.Navigate("file://"+file(name)+".html"))
			eval[bool](b, `document.querySelectorAll('details').forEach((d) => { d.open = true; }) ?? true`)
			eval[bool](b, script)
			for j, width := range []int64{1280, 390} {
				theme := []string{"light", "dark"}[(i+j)%2]
				b.look(width, theme)
				for _, line := range b.axe() {
					t.Errorf("%s, %s, %s, %d px: %s", name, lang, theme, width, line)
				}
				if w := eval[int64](b, `document.documentElement.scrollWidth`); w > width {
					t.Errorf("%s, %s: %d px wide in a window of %d", name, lang, w, width)
				}
				b.shot(strings.Join([]string{"report", name, lang, theme}, "-"))
			}
		}
	}
	b.clean()
}
