package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"lastitem/loadtest"
)

// One run writes its JSON, a page and a summary; the page says how to repeat it, and no file has the token.
func TestReportsBesideTheResult(t *testing.T) {
	url, dir := startFakeShop(t, &fakeShop{}), t.TempDir()
	for _, command := range []string{"loadtest", "demo"} {
		file := func(ending string) string { return filepath.Join(dir, command+ending) }
		args := []string{
			command, "--url", url, "--token", fakeToken, "--replicas", "1", "--mode", "unsafe,lua-lock", "--vus", "4", "--requests", "60", "--stock", "20",
			"--lang", "zh", "--out", file(".json"), "--html", file(".html"), "--markdown", file(".md"),
		}
		code, out, errOut := commandLine(t.Context(), newRoot("en"), args...)
		if code != exitOK || !strings.Contains(out, "html: "+file(".html")) || !strings.Contains(out, "markdown: "+file(".md")) {
			t.Fatalf("shop %s: exit %d, want 0 and the names of the files\n%s%s", command, code, out, errOut)
		}
		texts := map[string]string{}
		for _, ending := range []string{".json", ".html", ".md"} {
			text, err := os.ReadFile(file(ending))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), fakeToken) {
				t.Errorf("%s has the token", file(ending))
			}
			texts[ending] = string(text)
		}
		var c loadtest.Comparison
		want := "bin/shop " + command + " --url " + url + " --replicas 1 --mode unsafe,lua-lock --vus 4 --requests 60 --stock 20"
		if err := json.Unmarshal([]byte(texts[".json"]), &c); err != nil || c.Command != want || len(c.Results[0].Series) == 0 || len(c.Results[0].Curve) == 0 {
			t.Errorf("shop %s: JSON %v, command %q, want %q, and a course and a curve", command, err, c.Command, want)
		}
		if page := texts[".html"]; !strings.Contains(page, `lang="zh"`) || !strings.Contains(page, "如何复现") || strings.Contains(page, "http-equiv=\"refresh") {
			t.Errorf("shop %s: the page is not as it should be:\n%.600s", command, page)
		}
		if !strings.Contains(texts[".md"], "| lua-lock |") {
			t.Errorf("shop %s: the summary has no row for lua-lock:\n%s", command, texts[".md"])
		}
	}
}

// The summary of a step of GitHub Actions is appended to; any other file is overwritten.
func TestStepSummaryIsAppendedTo(t *testing.T) {
	url, dir := startFakeShop(t, &fakeShop{}), t.TempDir()
	summary, other := filepath.Join(dir, "summary.md"), filepath.Join(dir, "other.md")
	t.Setenv(envStepSummary, summary)
	for _, file := range []string{summary, other} {
		if err := os.WriteFile(file, []byte("before\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errOut := commandLine(t.Context(), newRoot("en"), "loadtest", "--url", url, "--token", fakeToken, "--mode", "lua-lock", "--vus", "4",
			"--requests", "60", "--stock", "20", "--markdown", file, "-o", "json", "-q")
		text, err := os.ReadFile(file)
		if code != exitOK || err != nil || strings.HasPrefix(string(text), "before\n|") != (file == summary) || !strings.Contains(string(text), "| lua-lock |") {
			t.Errorf("exit %d, %v: %s is %q\n%s", code, err, file, text, errOut)
		}
		if !json.Valid([]byte(out)) {
			t.Errorf("stdout is not JSON alone:\n%s", out)
		}
	}
	wantRefused(t, newRoot("en"), "-o html", "loadtest", "--mode", "x", "--html", "-")
	for line, want := range map[string]string{
		"lab --random --html x.html":         "exclude --random, --replay and --tell",
		"lab --replay x.json -o html":        "exclude --random, --replay and --tell",
		"lab --tell stories --out y.html":    "these flags exclude each other: --out --tell",
		"lab --docs elsewhere --out y.json ": "these flags exclude each other: --docs --out",
	} {
		wantRefused(t, newRoot("en"), want, strings.Fields(line)...)
	}
	if code, _, errOut := commandLine(t.Context(), newRoot("en"), "loadtest", "--mode", "x", "--html", dir); code != exitFailed || !strings.Contains(errOut, "shop: --html: ") {
		t.Errorf("--html of a directory: exit %d, %q, want %d before anything is run", code, errOut, exitFailed)
	}
}

// What a shell would take apart is quoted, tokens are left out, and passwords are masked and known as secrets.
func TestAgain(t *testing.T) {
	t.Setenv(envToken, "from-the-environment")
	set := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	set.SortFlags = false
	set.String("mode", "", "")
	set.String("token", "", "")
	set.String("redis", "", "")
	set.String("sql", "", "")
	set.String("request", "", "")
	set.StringArray("threshold", nil, "")
	set.StringSlice("fault", nil, "")
	set.Bool("strict", false, "")
	set.Bool("all", true, "")
	set.String("out", "", "")
	err := set.Parse([]string{
		"--mode", "set*,mutex", "--token", "t0ken", "--redis", "redis://u:p%40ss@h:1,redis://:second@h:2", "--sql", "shop:s3cret@tcp(h:3306)/x", "--request",
		"POST /buy {'a'}", "--threshold", "p(99)<5ms", "--threshold", "oversold==0", "--fault", "pause,crash", "--strict", "--all=false", "--out", "x.json",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `bin/shop demo --mode 'set*,mutex' --redis 'redis://u:***@h:1,redis://:***@h:2' --sql 'shop:***@tcp(h:3306)/x' ` +
		`--request 'POST /buy {'\''a'\''}' --threshold 'p(99)<5ms' --threshold 'oversold==0' --fault pause,crash --strict --all=false`
	want = strings.Replace(want, "'oversold==0'", "oversold==0", 1)
	if got := again("demo", set); got != want {
		t.Errorf("again() =\n%s\nwant\n%s", got, want)
	}
	secrets := strings.Join(secretsIn(set, "of-the-stack"), " ")
	for _, want := range []string{"t0ken", "from-the-environment", "of-the-stack", "p%40ss", "p@ss", "second", "s3cret"} {
		if !strings.Contains(secrets, want) {
			t.Errorf("secretsIn() = %s, want %s in it", secrets, want)
		}
	}
}

// The command of 'shop lab --serve' keeps what it needs, and no credential.
func TestAgainMasksCredentials(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"--header=Authorization: Bearer s3cret":      "--header 'Authorization: ***'",
		"--header=x-api-key:s3cret":                  "--header 'x-api-key:***'",
		"--header=Cookie: a=s3cret":                  "--header 'Cookie: ***'",
		"--header=Content-Type: application/json":    "--header 'Content-Type: application/json'",
		"--env=ADMIN_TOKEN=s3cret":                   "--env 'ADMIN_TOKEN=***'",
		"--env=REDIS_PASSWORD={{redis_password}}":    "--env 'REDIS_PASSWORD={{redis_password}}'",
		"--env=URL=redis://:s3cret@127.0.0.1:6379/0": "--env 'URL=redis://:***@127.0.0.1:6379/0'",
		"--env=LOCK_TTL=700ms":                       "--env LOCK_TTL=700ms",
	} {
		set := pflag.NewFlagSet("lab", pflag.ContinueOnError)
		set.StringArray("env", nil, "")
		set.StringArray("header", nil, "")
		if err := set.Parse([]string{value}); err != nil {
			t.Fatal(err)
		}
		if got := again("lab", set); !strings.HasSuffix(got, want) {
			t.Errorf("again() of %s = %s, want %s at its end", value, got, want)
		}
	}
}
