package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/contract/api"
	"lastitem/testkit"
	"lastitem/testkit/doctest"
)

// Every command that prints a result takes --output and --out, refuses a form that it does not have by naming those
// that it has, and writes each form to stdout and to a file alike.
func TestOutput(t *testing.T) {
	t.Parallel()
	load := []string{"--token", fakeToken, "--mode", "lua-lock,unsafe", "--vus", "2", "--requests", "30", "--stock", "10",
		"--replicas", "1", "--quiet"}
	var all sync.WaitGroup // a run waits more than it works
	for _, tt := range []struct {
		args  []string
		forms []string
	}{
		{append([]string{"demo"}, load...), comparisonForms},
		{append([]string{"loadtest"}, load...), comparisonForms},
		{[]string{"modes"}, []string{formText, formJSON, formMarkdown}},
		{[]string{"settings"}, []string{formText, formJSON, formMarkdown}},
		{[]string{"version"}, []string{formText, formJSON}},
		{[]string{"migrate", "--list"}, []string{formText, formJSON}},
	} {
		name := tt.args[0]
		wantRefused(t, newRoot("en"), `--output "xml": want `+orList(tt.forms).En,
			append(slices.Clone(tt.args), "-o", "xml")...)
		for _, form := range tt.forms {
			args, file := append(slices.Clone(tt.args), "-o", form), filepath.Join(t.TempDir(), "new", "result")
			if len(tt.args) > len(load) {
				args = append(args, "--url", startFakeShop(t, &fakeShop{}))
			}
			all.Go(func() {
				_, printed, _ := commandLine(t.Context(), newRoot("en"), append(slices.Clone(args), "--out", "-")...)
				code, out, errOut := commandLine(t.Context(), newRoot("en"), append(slices.Clone(args), "--out", file)...)
				text, err := os.ReadFile(file)
				if code != exitOK || err != nil || !hasForm(form, string(text)) || !hasForm(form, printed) {
					t.Errorf("%s -o %s --out FILE: exit %d, %v, %s\nthe file has %.200q, without --out stdout has %.200q", name, form,
						code, err, errOut, text, printed)
				}
				if strings.Contains(out, firstLine(string(text))) {
					t.Errorf("%s -o %s --out FILE prints the result too: %.200q", name, form, out)
				}
			})
		}
	}
	all.Wait()
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// hasForm says whether text looks like a form.
func hasForm(form, text string) bool {
	switch form {
	case formJSON:
		return json.Valid([]byte(text)) && strings.HasPrefix(text, "{\n  \"schema\": 1,\n")
	case formCSV:
		return strings.HasPrefix(text, "mode,store,")
	case formBench:
		return strings.HasPrefix(text, "goos: ")
	case formMarkdown:
		return strings.Contains(text, "| --- |")
	}
	return text != "" && !json.Valid([]byte(text)) && !strings.Contains(text, "| --- |")
}

// A path that is mistyped makes no directories, and a result that a flag sends elsewhere is not written to the usual
// file as well.
func TestNoFileUnasked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, missing := range []string{"/no-such-directory/x.html", filepath.Join(dir, "missing", "dir", "x.html")} {
		want := "there is no directory " + filepath.Dir(missing)
		if err := writable(missing); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("writable(%s) = %v, want %q", missing, err, want)
			_ = os.Remove("/no-such-directory")
		}
		if err := toFile(missing, false, func(io.Writer) error { return nil }); err == nil {
			t.Errorf("toFile(%s) made its directories", missing)
			_ = os.RemoveAll("/no-such-directory")
		}
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v, want nothing", left, err)
	}
	if code, _, errOut := commandLine(t.Context(), newRoot("en"), "lab", "--replay",
		filepath.Join(dir, "none.json")); code != exitUsage || strings.Count(errOut, "\n") != 1 {
		t.Errorf("lab --replay of no file: exit %d, %q, want that and no more", code, errOut)
	}
	for _, flag := range []string{"--html", "--markdown"} {
		o, cmd := output{usual: "out/demo.json"}, &cobra.Command{}
		o.add(cmd, "en", comparisonForms...)
		o.addBesides(cmd, formHTML, formMarkdown)
		err := cmd.ParseFlags([]string{flag, filepath.Join(dir, "x")})
		if err := errors.Join(err, o.check(cmd)); err != nil || o.file != "" {
			t.Errorf("demo %s FILE writes %q too, %v, want no file that nobody named", flag, o.file, err)
		}
	}
}

// What goes to the terminal is cleaned on its way, so that no command can forget it: none writes past the command's own
// output.
func TestNothingIsPrintedPastTheCommand(t *testing.T) {
	t.Parallel()
	// the cleaned writers; the keeper's pipe; a child's own output
	allowed := map[string]int{"main.go": 2, "hidden.go": 1, "with_stack.go": 2}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v, want the package", len(files), err)
	}
	for _, file := range files {
		text := testkit.Read(t, file)
		n := len(regexp.MustCompile(`os\.Std(out|err)|fmt\.Print`).FindAll(text, -1))
		if !strings.HasSuffix(file, "_test.go") && n != allowed[file] {
			t.Errorf("%s writes past the command %d times, want %d: use cmd.OutOrStdout and cmd.ErrOrStderr", file, n,
				allowed[file])
		}
	}
	if text := doctest.Read(t, "cmd/shop/main.go"); !strings.Contains(text, "SetOut(layout.Clean(os.Stdout))") ||
		!strings.Contains(text, "SetErr(layout.Clean(os.Stderr))") {
		t.Error("the program's own output is not cleaned")
	}
}

// Without --output the ending of the file says its form, and the text is printed beside it.
func TestOutByEnding(t *testing.T) {
	t.Parallel()
	for file, form := range map[string]string{"m.json": formJSON, "m.MD": formMarkdown, "m.txt": formText, "m": formText} {
		path := filepath.Join(t.TempDir(), file)
		code, out, errOut := commandLine(t.Context(), newRoot("en"), "modes", "--out", path)
		text, err := os.ReadFile(path)
		if code != exitOK || err != nil || !hasForm(form, string(text)) {
			t.Errorf("modes --out %s: exit %d, %v, %s: %.100q, want %s", file, code, err, errOut, text, form)
		}
		if printed := strings.Contains(out, "lua-lock"); printed != (form != formText) {
			t.Errorf("modes --out %s prints %.200q", file, out)
		}
	}
	// there is no essay in JSON
	for _, args := range [][]string{{"-o", "json"}, {"--out", filepath.Join(t.TempDir(), "essay.json")}} {
		wantRefused(t, newRoot("en"), "essay is Markdown", append([]string{"modes", "lua-lock"}, args...)...)
	}
	wantRefused(t, newRoot("en"), "--out modes.csv: this command writes text, json or markdown", "modes", "--out",
		"modes.csv")
}

// A command whose result is JSON by default writes a file beside the text, too.
func TestOutBesideTheText(t *testing.T) {
	t.Parallel()
	server := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.Product{ProductID: 4242, Stock: map[api.Store]int64{api.Redis: 7}})
	}))
	for _, tt := range []struct {
		file         string
		args         []string
		form, stdout string // stdout "" = the file alone gets the result
	}{
		{"s.json", nil, formJSON, "product 4242\n  redis  7\n"}, {"s.json", []string{"-o", "json"}, formJSON, ""},
		{"s.txt", nil, formText, ""}, {"s", nil, formJSON, ""},
	} {
		path := filepath.Join(t.TempDir(), tt.file)
		args := append([]string{"stock", "4242", "--lang", "en", "--url", server.URL, "--out", path}, tt.args...)
		code, out, errOut := commandLine(t.Context(), newRoot("en"), args...)
		text, err := os.ReadFile(path)
		if code != exitOK || err != nil || strings.HasPrefix(string(text), "{") != (tt.form == formJSON) ||
			!strings.HasPrefix(out, tt.stdout) || strings.Contains(out, "4242") != (tt.stdout != "") {
			t.Errorf("shop %q: exit %d, %v, %s\nthe file has %q, stdout has %q; want %s, and %q", args, code, err, errOut, text,
				out, tt.form, tt.stdout)
		}
	}
}

// Every flag is in a section of the help where the command has sections.
func TestHelp(t *testing.T) {
	t.Parallel()
	for command, sections := range map[string][]string{
		"loadtest": {"Target:", "Plan:", "Closed loop", "Open loop", "Data:", "Requests:", "Output:", "Foreign service"},
		"demo":     {"Modes:", "Stack:", "Running stack:", "Load:", "Output:"},
		"lab":      {"Cells:", "Schedules:", "Random schedules:", "Output:", "Your own service:"},
		"serve":    {"Replica:", "Backends:", "Times:", "Retention:", "Logs:"},
	} {
		_, out, _ := commandLine(t.Context(), newRoot("en"), command, "--help")
		at := 0
		for _, title := range sections {
			next := strings.Index(out[at:], "\n"+title)
			if next < 0 {
				t.Errorf("shop %s --help: no section %q after the ones before:\n%s", command, title, out)
				break
			}
			at += next + 1
		}
		if !strings.Contains(out, "Flags:\n  -h, --help") {
			t.Errorf("shop %s --help: there is another flag without a section:\n%s", command, out[at:])
		}
		cmd, _, err := newRoot("en").Find([]string{command})
		testkit.Must(t, err)
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(out, " --"+f.Name+" ") && f.Name != "help" {
				t.Errorf("shop %s --help does not show --%s", command, f.Name)
			}
		})
	}
}

// A result that people read has --lang, in every command alike, and its default follows the locale.
func TestLanguages(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"demo", "up", "modes", "trace", "loadtest", "write-ups", "audit", "lab", "stock",
		"lock", "settings"} {
		cmd, _, err := newRoot("en").Find([]string{command})
		if err != nil || cmd.Flags().Lookup("lang") == nil {
			t.Errorf("shop %s has no --lang", command)
		}
	}
	for _, tt := range []struct {
		all, messages, lang, want string
	}{
		{"", "", "", "en"}, {"", "", "zh_CN.UTF-8", "zh"}, {"", "", "de_DE.UTF-8", "en"}, {"C", "", "zh_CN.UTF-8", "en"},
		{"", "zh_TW", "en_US", "zh"}, {"", "en_US", "zh_CN", "en"}, {"", "", "C.UTF-8", "en"}, {"zh_CN.utf8", "", "", "zh"},
		{"zh_CN.GBK", "", "", "en"}, {"", "", "zh_TW.Big5", "en"}, {"", "zh_CN.UTF-8", "zh_CN.GB18030@stroke", "en"},
	} {
		environment := map[string]string{"LC_ALL": tt.all, "LC_MESSAGES": tt.messages, "LANG": tt.lang}
		if got := localeLanguage(func(name string) string { return environment[name] }); got != tt.want {
			t.Errorf("the language of LC_ALL=%s LC_MESSAGES=%s LANG=%s is %s, want %s", tt.all, tt.messages, tt.lang, got,
				tt.want)
		}
	}
	// Output for programs does not change with the locale.
	var o output
	cmd := &cobra.Command{}
	o.add(cmd, "en", formText, formJSON)
	lang := ""
	addLang(cmd.Flags(), &lang)
	for _, tt := range []struct{ form, want string }{{formText, "zh"}, {formJSON, "en"}} {
		o.form, o.chosen = tt.form, true
		testkit.Must(t, o.check(cmd))
		if got := o.language(cmd, "zh"); got != tt.want {
			t.Errorf("the language of -o %s in a Chinese locale is %s, want %s", tt.form, got, tt.want)
		}
	}
}

// The file of a result with passwords is for its owner alone, even if it was there and everybody could read it.
func TestSecretOutput(t *testing.T) {
	t.Parallel()
	for _, secret := range []bool{true, false} {
		file := filepath.Join(t.TempDir(), "sub", "result.json")
		for range 2 {
			if err := toFile(file, secret, func(w io.Writer) error {
				_, err := io.WriteString(w, "1")
				return err
			}); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(file)
			if err != nil || info.Size() != 1 || (info.Mode().Perm()&0o077 == 0) != secret {
				t.Errorf("secret %t: %v, %v, want that others can read it: %t", secret, info, err, !secret)
			}
			testkit.Must(t, os.Chmod(file, 0o644))
		}
	}
}
