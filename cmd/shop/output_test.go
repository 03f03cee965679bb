package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"

	"lastitem/contract/api"
	"lastitem/internal/cli"
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
		{[]string{"modes"}, []string{cli.Text, cli.JSON, cli.Markdown}},
		{[]string{"settings"}, []string{cli.Text, cli.JSON, cli.Markdown}},
		{[]string{"version"}, []string{cli.Text, cli.JSON}},
		{[]string{"migrate", "--list"}, []string{cli.Text, cli.JSON}},
	} {
		name := tt.args[0]
		wantRefused(t, newRoot("en"), `--output "xml": want `+cli.OrList(tt.forms).En,
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
				if code != cli.ExitOK || err != nil || !hasForm(form, string(text)) || !hasForm(form, printed) {
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
	case cli.JSON:
		return json.Valid([]byte(text)) && strings.HasPrefix(text, "{\n  \"schema\": 1,\n")
	case cli.CSV:
		return strings.HasPrefix(text, "mode,store,")
	case cli.Bench:
		return strings.HasPrefix(text, "goos: ")
	case cli.Markdown:
		return strings.Contains(text, "| --- |")
	}
	return text != "" && !json.Valid([]byte(text)) && !strings.Contains(text, "| --- |")
}

// What goes to the terminal is cleaned on its way, so that no command can forget it: none writes past the command's own
// output.
func TestNothingIsPrintedPastTheCommand(t *testing.T) {
	t.Parallel()
	// the cleaned writers; the keeper's pipe; a child's own output
	allowed := map[string]int{"main.go": 2, "hidden.go": 1, "with_stack.go": 2}
	files, err := filepath.Glob("*.go")
	kit, failed := filepath.Glob("../../internal/cli/*.go")
	if err := errors.Join(err, failed); err != nil || len(files) < 20 || len(kit) < 8 {
		t.Fatalf("%d files and %d of the kit, %v, want the packages", len(files), len(kit), err)
	}
	for _, file := range append(files, kit...) {
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
	for file, form := range map[string]string{"m.json": cli.JSON, "m.MD": cli.Markdown, "m.txt": cli.Text, "m": cli.Text} {
		path := filepath.Join(t.TempDir(), file)
		code, out, errOut := commandLine(t.Context(), newRoot("en"), "modes", "--out", path)
		text, err := os.ReadFile(path)
		if code != cli.ExitOK || err != nil || !hasForm(form, string(text)) {
			t.Errorf("modes --out %s: exit %d, %v, %s: %.100q, want %s", file, code, err, errOut, text, form)
		}
		if printed := strings.Contains(out, "lua-lock"); printed != (form != cli.Text) {
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
		{"s.json", nil, cli.JSON, "product 4242\n  redis  7\n"}, {"s.json", []string{"-o", "json"}, cli.JSON, ""},
		{"s.txt", nil, cli.Text, ""}, {"s", nil, cli.JSON, ""},
	} {
		path := filepath.Join(t.TempDir(), tt.file)
		args := append([]string{"stock", "4242", "--lang", "en", "--url", server.URL, "--out", path}, tt.args...)
		code, out, errOut := commandLine(t.Context(), newRoot("en"), args...)
		text, err := os.ReadFile(path)
		if code != cli.ExitOK || err != nil || strings.HasPrefix(string(text), "{") != (tt.form == cli.JSON) ||
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
}
