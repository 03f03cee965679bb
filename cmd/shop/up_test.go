package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"lastitem/internal/cli"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/compare"
	"lastitem/say/text"
	"lastitem/stack"
	"lastitem/testkit"
)

// The line that 'shop up' prints for another shell sets what the pages' commands use, whatever is in a password, and
// leaves the user's own servers out.
func TestUpPrintsALineToPaste(t *testing.T) {
	t.Parallel()
	running := &stack.Stack{
		URL: "http://127.0.0.1:8080", Token: `it's a "token" $HOME`,
		Redis: stack.Service{Name: "redis", URL: "redis://:pw@127.0.0.1:1/0", PID: 7},
		SQL:   stack.Service{Name: "sql", Kind: "embedded SQLite", URL: "sqlite:/tmp/x.db"},
	}
	line := ""
	for lang, end := range map[string]string{"en": "Ctrl-C ends it all.", "zh": "按 Ctrl-C 全部停止。"} {
		var out bytes.Buffer
		testkit.Must(t, printStack(&out, running, &upFlags{stackFlags: stackFlags{lang: lang}}))
		if !strings.Contains(out.String(), end) {
			t.Errorf("--lang %s: %s\nwant it to end with %q", lang, &out, end)
		}
		for l := range strings.Lines(out.String()) {
			if l = strings.TrimSpace(l); strings.HasPrefix(l, "export ") {
				line = l
			}
		}
	}
	got, err := exec.CommandContext(t.Context(), "sh", "-c", line+
		`; printf '%s|%s|%s' "$SHOP_ADMIN_TOKEN" "$REDIS" "$SQL"`).Output()
	if want := running.Token + "|" + running.Redis.URL + "|" + running.SQL.URL; err != nil || string(got) != want {
		t.Errorf("%s\nsets %q (%v), want %q", line, got, err, want)
	}
	running.Redis.PID, running.SQL.Kind, running.SQL.URL = 0, "given", "shop:secret@tcp(db)/x"
	if line := exports(running); strings.Contains(line, "REDIS=") || strings.Contains(line, "secret") {
		t.Errorf("with servers of the user's own: %s, want the token alone", line)
	}
}

// The file of --env sets the same variables in a shell that sources it, only its owner may read it, and it replaces an
// older one. At the end a stack deletes its own file: not that of a later stack, and it does not miss one that is gone.
func TestUpWritesAFileToSource(t *testing.T) {
	t.Parallel()
	running := &stack.Stack{
		Token: "it's a token", Redis: stack.Service{URL: "redis://:pw@127.0.0.1:1/0", PID: 7},
		SQL: stack.Service{Kind: "mariadbd", URL: "root@tcp(127.0.0.1:2)/x"},
	}
	file := filepath.Join(t.TempDir(), "out", "up.env")
	removeEarlier, err := writeEnv(file, &stack.Stack{Token: "earlier"})
	testkit.Must(t, errors.Join(err, os.Chmod(file, 0o644)))
	remove, err := writeEnv(file, running)
	testkit.Must(t, errors.Join(err, removeEarlier()))
	if i, err := os.Stat(file); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want a file that only its owner can read", i, err)
	}
	line := forAnotherShell(running, file)
	got, err := exec.CommandContext(t.Context(), "sh", "-c", line+
		` && printf '%s|%s|%s' "$SHOP_ADMIN_TOKEN" "$REDIS" "$SQL"`).Output()
	if want := running.Token + "|" + running.Redis.URL + "|" + running.SQL.URL; err != nil || string(got) != want {
		t.Errorf("%s sets %q (%v), want %q", line, got, err, want)
	}
	testkit.Is(t, forAnotherShell(running, "up.env"), ". './up.env'", "a file of the current directory")
	for range 2 {
		testkit.Is(t, remove(), nil, "remove()")
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("%v; want the file removed at the end", err)
	}
}

// 'shop up --env' neither replaces nor deletes what it did not write: as root, --env /dev/null would cost the machine
// that device.
func TestUpKeepsWhatIsNotItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.Mkdir(path("directory"), 0o755), os.WriteFile(path("notes"), []byte("SHOP_PORT=8080\n"), 0o600),
		os.WriteFile(path("by-hand"), []byte("export SHOP_ADMIN_TOKEN='mine'\n"), 0o600),
		os.WriteFile(path("longer"), []byte(envMark+"export SHOP_ADMIN_TOKEN='mine'\nexport DB_PASSWORD=precious\n"), 0o600),
		os.Symlink("notes", path("link")), syscall.Mkfifo(path("pipe"), 0o600))
	testkit.Must(t, err)
	for _, name := range []string{"directory", "notes", "by-hand", "longer", "link", "pipe"} {
		before, err := os.Lstat(path(name))
		testkit.Must(t, err)
		wantRefused(t, newRoot("en"), "shop: --env "+path(name)+": ", "up", "--redis", "redis://127.0.0.1:1", "--env",
			path(name))
		if _, err := writeEnv(path(name), &stack.Stack{Token: "t"}); err == nil {
			t.Errorf("writeEnv replaced %s", name)
		}
		if after, err := os.Lstat(path(name)); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s is now %v, %v; want it untouched", name, after, err)
		}
	}
	if err := checkEnv("/dev/null/up.env"); err == nil {
		t.Error("checkEnv takes a file that cannot be written")
	}
}

// The result says the same as text, in both languages, and as JSON; a replica that served nothing makes it
// inconclusive.
func TestRollingReport(t *testing.T) {
	t.Parallel()
	sold := loadtest.RollingMode{Mode: "lease-seq", Sent: 12, Sold: 10, Answers: map[string]int{"ok": 10, "contended": 2},
		Audit: judge.Vacuous, Missing: []string{"no overlap"}}
	all := map[string]int{"r1": 4, "r2": 4, "r3": 4}
	exact := rolled{RollingResult: loadtest.RollingResult{Served: all, Modes: []loadtest.RollingMode{sold}}}
	early := rolled{RollingResult: exact.RollingResult, unreplaced: vacuous(text.Text{En: "too short", Zh: "太短"})}
	for name, c := range map[string]struct {
		r          rolled
		lang, form string
		want       []string
		err        string // part of it; "" = none
	}{
		"exact": {exact, "en",
			cli.Text, []string{"lease-seq: 12 requests, 10 sold, answers: contended 2, ok 10; audit VACUOUS (no overlap)",
				"EXACT: nothing was lost; served by r1 4, r2 4, r3 4"}, ""},
		"Chinese": {exact, "zh",
			cli.Text, []string{"12 个请求", "审计 VACUOUS（no overlap）", "什么都没丢"}, ""},
		"JSON": {exact, "en",
			cli.JSON, []string{`"exact": true`, `"contended": 2`, `"no overlap"`}, ""},
		"lost": {rolled{RollingResult: loadtest.RollingResult{Served: all,
			Modes: []loadtest.RollingMode{{Mode: "queue", Lost: []string{"reset 1"}}}}}, "en", cli.JSON,
			[]string{`"exact": false`, `"reset 1"`, `"why": "queue lost requests: reset 1"`}, "queue lost requests: reset 1"},
		"broken off": {rolled{RollingResult: loadtest.RollingResult{Served: all,
			Modes: []loadtest.RollingMode{{Mode: "queue", Error: "no answer"}}}}, "en", cli.Text, []string{"queue: no answer"},
			"queue: no answer"},
		"ended early": {early, "en", cli.Text, []string{"lease-seq"},
			"VACUOUS: too short"},
		"ended early, JSON": {early, "en", cli.JSON,
			[]string{`"exact": false`, `"why": "VACUOUS: too short"`},
			"VACUOUS: too short"},
		"ended early, JSON in Chinese": {early, "zh", cli.JSON,
			[]string{`"why": "VACUOUS（无效）：太短"`},
			"VACUOUS: too short"},
		"one replica": {rolled{RollingResult: loadtest.RollingResult{Served: map[string]int{"r1": 4},
			Modes: []loadtest.RollingMode{sold}}, everyReplica: true}, "en", cli.Text, []string{"lease-seq"},
			"VACUOUS: the requests were served by r1 4"},
	} {
		var out strings.Builder
		cmd := newRolling("en")
		cmd.SetOut(&out)
		cmd.SetContext(t.Context())
		f := rollingFlags{lang: c.lang, output: cli.Output{StdoutForm: c.form}}
		err := f.report(cmd, c.r)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q lacks %q", name, out.String(), want)
			}
		}
		if c.err != "" && strings.Contains(out.String(), "EXACT") {
			t.Errorf("%s: %q claims that nothing was lost", name, out.String())
		}
	}
}

// After Ctrl-C it says only that: what the interruption cut short is no finding, and the error of a replica that was
// being replaced no news.
func TestRollingInterrupted(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]rolled{
		"while a replica was replaced": {unreplaced: errors.New("stack: replica 1 does not end: interrupt signal " +
			"received")},
		"before that": {unreplaced: vacuous(text.Text{En: "the load ended", Zh: "压测结束了"})},
		"with a run cut short": {RollingResult: loadtest.RollingResult{Modes: []loadtest.RollingMode{{Mode: "queue",
			Error: "context canceled"}}}},
		"before the load": {err: errors.New("context canceled")},
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		interrupt()
		var out strings.Builder
		cmd := newRolling("en")
		cmd.SetOut(&out)
		cmd.SetContext(ctx)
		f := rollingFlags{lang: "en", output: cli.Output{StdoutForm: cli.JSON}}
		err := f.report(cmd, r)
		var e *cli.Error
		if !errors.As(err, &e) || e.Code != cli.ExitInterrupted || err.Error() != "interrupted" ||
			r.err == nil && !strings.Contains(out.String(), `"why": "interrupted"`) {
			t.Errorf("%s: %v, %s, want exit %d and only that it was interrupted", name, err, out.String(), cli.ExitInterrupted)
		}
	}
}

// One run writes its JSON, a page and a summary; the page says how to repeat it, and no file has the token.
func TestReportsBesideTheResult(t *testing.T) {
	url, dir := startFakeShop(t, &fakeShop{}), t.TempDir()
	for _, command := range []string{"loadtest", "demo"} {
		file := func(ending string) string { return filepath.Join(dir, command+ending) }
		args := []string{
			command, "--url", url, "--token", fakeToken, "--replicas", "1", "--mode", "unsafe,lua-lock", "--vus", "4",
			"--requests", "60", "--stock", "20",
			"--lang", "zh", "--out", file(".json"), "--html", file(".html"), "--markdown", file(".md"),
		}
		code, out, errOut := commandLine(t.Context(), newRoot("en"), args...)
		if code != cli.ExitOK || !strings.Contains(out, "html: "+file(".html")) ||
			!strings.Contains(out, "markdown: "+file(".md")) {
			t.Fatalf("shop %s: exit %d, want 0 and the names of the files\n%s%s", command, code, out, errOut)
		}
		texts := map[string]string{}
		for _, ending := range []string{".json", ".html", ".md"} {
			text := testkit.Read(t, file(ending))
			if strings.Contains(string(text), fakeToken) {
				t.Errorf("%s has the token", file(ending))
			}
			texts[ending] = string(text)
		}
		var c compare.Comparison
		want := "bin/shop " + command + " --url " + url + " --replicas 1 --mode unsafe,lua-lock --vus 4 --requests 60 " +
			"--stock 20"
		if err := json.Unmarshal([]byte(texts[".json"]), &c); err != nil || c.Command != want ||
			len(c.Results[0].Series) == 0 || len(c.Results[0].Curve) == 0 {
			t.Errorf("shop %s: JSON %v, command %q, want %q, and a course and a curve", command, err, c.Command, want)
		}
		if page := texts[".html"]; !strings.Contains(page, `lang="zh"`) || !strings.Contains(page, "如何复现") ||
			strings.Contains(page, "http-equiv=\"refresh") {
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
	t.Setenv("GITHUB_STEP_SUMMARY", summary)
	for _, file := range []string{summary, other} {
		testkit.Must(t, os.WriteFile(file, []byte("before\n"), 0o600))
		code, out, errOut := commandLine(t.Context(), newRoot("en"), "loadtest", "--url", url, "--token", fakeToken, "--mode",
			"lua-lock", "--vus", "4",
			"--requests", "60", "--stock", "20", "--markdown", file, "-o", "json", "-q")
		text, err := os.ReadFile(file)
		if code != cli.ExitOK || err != nil || strings.HasPrefix(string(text), "before\n|") != (file == summary) ||
			!strings.Contains(string(text), "| lua-lock |") {
			t.Errorf("exit %d, %v: %s is %q\n%s", code, err, file, text, errOut)
		}
		if !json.Valid([]byte(out)) {
			t.Errorf("stdout is not JSON alone:\n%s", out)
		}
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
		"--mode", "set*,mutex", "--token", "t0ken", "--redis", "redis://u:p%40ss@h:1,redis://:second@h:2", "--sql",
		"shop:s3cret@tcp(h:3306)/x", "--request",
		"POST /buy {'a'}", "--threshold", "p(99)<5ms", "--threshold", "oversold==0", "--fault", "pause,crash", "--strict",
		"--all=false", "--out", "x.json",
	})
	testkit.Must(t, err)
	want := `bin/shop demo --mode 'set*,mutex' --redis 'redis://u:***@h:1,redis://:***@h:2' --sql ` +
		`'shop:***@tcp(h:3306)/x' ` +
		`--request 'POST /buy {'\''a'\''}' --threshold 'p(99)<5ms' --threshold 'oversold==0' --fault pause,crash --strict ` +
		`--all=false`
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
		testkit.Must(t, set.Parse([]string{value}))
		if got := again("lab", set); !strings.HasSuffix(got, want) {
			t.Errorf("again() of %s = %s, want %s at its end", value, got, want)
		}
	}
}
