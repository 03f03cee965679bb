package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/api"
	"lastitem/internal/columns"
	"lastitem/internal/localstack"
	"lastitem/internal/stock"
	"lastitem/internal/testenv"
)

var update = flag.Bool("update", false, "rewrite the mode tables of the READMEs, or the traces")

// root is the root of the repository, seen from this package.
const root = "../.."

// readmes are the two of them, by language.
var readmes = map[string]string{"en": "README.md", "zh": "README.zh.md"}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// docs reads the READMEs, the guides and every essay, by path from the root.
func docs(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, guide := range guides {
		all[guide+".md"], all[guide+".zh.md"] = readDoc(t, guide+".md"), readDoc(t, guide+".zh.md")
	}
	for lang, name := range readmes {
		all[name] = readDoc(t, name)
		for _, m := range stock.Modes() {
			essay := fmt.Sprintf("internal/stock/doc/%s.%s.md", m.Name, lang)
			all[essay] = readDoc(t, essay)
		}
	}
	return all
}

// TestModeTables holds the mode tables of the READMEs against 'shop modes -o markdown'.
func TestModeTables(t *testing.T) {
	const begin, end = "<!-- modes:begin -->\n", "<!-- modes:end -->\n"
	for lang, name := range readmes {
		code, table, errOut := commandLine(t.Context(), newModes("en"), "-o", "markdown", "--lang", lang)
		if code != exitOK {
			t.Fatalf("shop modes: exit %d: %s", code, errOut)
		}
		between(t, name, begin, end, table)
	}
}

// outline is what two translations of one text share.
type outline struct {
	Headings []string // only their levels: "#", "##"
	Markers  []string
	Commands []string // lines of shell blocks, without comments; after a curl, the status that its comment begins with
	Code     []string // other blocks, diagrams without the words of their notes; of a text block, which may hold translated words, only its number of lines
	Rows     int      // of tables
}

// wordsOfNote are the words of a note in a diagram, which are in the language of the page.
var wordsOfNote = regexp.MustCompile(`(?m)^(Note over [^:]*): .*$`)

var marker = regexp.MustCompile(`^<!-- [a-z]+:(begin|end) -->$`)

func outlineOf(text string) outline {
	var o outline
	language, block := "", []string(nil)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && language == "":
			language = info
			if info == "" {
				language = "text"
			}
		case fence && language == "sh":
			for _, l := range joined(block) {
				command, comment := splitComment(l)
				if strings.HasPrefix(command, "curl ") {
					command = strings.TrimSpace(command + " " + statusOf(comment))
				}
				o.Commands = append(o.Commands, command)
			}
			language, block = "", nil
		case fence && language == "text":
			o.Code = append(o.Code, fmt.Sprintf("text of %d lines", len(block)))
			language, block = "", nil
		case fence:
			o.Code = append(o.Code, wordsOfNote.ReplaceAllString(strings.Join(block, "\n"), "$1"))
			language, block = "", nil
		case language != "":
			block = append(block, line)
		case strings.HasPrefix(line, "#"):
			level, _, _ := strings.Cut(line, " ")
			o.Headings = append(o.Headings, level)
		case strings.HasPrefix(line, "|"):
			o.Rows++
		case marker.MatchString(line):
			o.Markers = append(o.Markers, line)
		}
	}
	return o
}

// joined puts together the shell lines that a backslash at the end continues.
func joined(lines []string) []string {
	text := strings.ReplaceAll(strings.Join(lines, "\n"), "\\\n", "")
	return strings.Split(text, "\n")
}

// splitComment cuts a shell line at a # that begins a comment: outside of quotes, at the start or after a blank.
func splitComment(line string) (command, comment string) {
	quote := rune(0)
	before := ' '
	for i, r := range line {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"':
			quote = r
		case r == '#' && before == ' ':
			return strings.TrimSpace(line[:i]), strings.TrimSpace(line[i+1:])
		}
		before = r
	}
	return strings.TrimSpace(line), ""
}

var leadingStatus = regexp.MustCompile(`^[1-5]\d\d\b`)

// statusOf is the HTTP status that a comment begins with; "" for none.
func statusOf(comment string) string { return leadingStatus.FindString(comment) }

// TestTranslationsAgree: both languages have the same sections, tables, markers and commands.
func TestTranslationsAgree(t *testing.T) {
	pairs := [][2]string{{readmes["en"], readmes["zh"]}}
	for _, m := range stock.Modes() {
		doc := "internal/stock/doc/" + m.Name
		pairs = append(pairs, [2]string{doc + ".en.md", doc + ".zh.md"})
	}
	for _, pair := range pairs {
		en, zh := outlineOf(readDoc(t, pair[0])), outlineOf(readDoc(t, pair[1]))
		if diff := cmp.Diff(en, zh); diff != "" {
			t.Errorf("%s and %s differ (-en +zh):\n%s", pair[0], pair[1], diff)
		}
		if len(en.Headings) == 0 || len(en.Commands) == 0 {
			t.Errorf("%s has %d headings and %d commands", pair[0], len(en.Headings), len(en.Commands))
		}
	}
}

// TestEssayTables: the hazards of an essay are the claims of its mode.
func TestEssayTables(t *testing.T) {
	for _, m := range stock.Modes() {
		for lang := range readmes {
			name := fmt.Sprintf("internal/stock/doc/%s.%s.md", m.Name, lang)
			var want [][]string
			for i, hazard := range stock.Hazards {
				row := []string{hazard}
				for _, s := range m.Stores {
					if o := m.Claims[s].Row()[i]; o != "" {
						row = append(row, o)
					}
				}
				if len(row) > 1 {
					want = append(want, row)
				}
			}
			var got [][]string
			for line := range strings.Lines(readDoc(t, name)) {
				cells := cellsOf(line)
				if len(cells) > 2 && slices.Contains(stock.Hazards, cells[0]) {
					got = append(got, cells[:len(cells)-1])
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: hazards against claims (-want +got):\n%s", name, diff)
			}
		}
	}
}

// cellsOf splits a row of a Markdown table; nil where the line is none.
func cellsOf(line string) []string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

var (
	fences     = regexp.MustCompile("(?ms)^ *```.*?\\n *```$")
	span       = regexp.MustCompile("`([^`\n]+)`")
	makeCall   = regexp.MustCompile(`(?:^|[\s;&])make ([a-z][a-z-]*)((?: [A-Za-z]+=[^ ]*)*)`)
	shopCall   = regexp.MustCompile(`(?:^|[\s/])shop ([a-z][a-z-]*)([^|;&]*)`)
	longFlag   = regexp.MustCompile(`(?:^|\s)--([a-z][a-z-]*)`)
	quoted     = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	linkTarget = regexp.MustCompile(`\]\(([^)#]+)\)`)
	ourPath    = regexp.MustCompile(`^(cmd|deploy|docs|internal|loadtest|migrations|scripts|\.ci)/[\w./-]*$`)
)

// commandsOf lists what a text tells its reader to run: the lines of its shell blocks, and its code spans.
func commandsOf(text string) []string {
	var all []string
	for _, command := range outlineOf(text).Commands {
		all = append(all, quoted.ReplaceAllString(command, "''"))
	}
	for _, s := range span.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
		all = append(all, quoted.ReplaceAllString(s[1], "''"))
	}
	return all
}

// TestDocsNameWhatExists: make targets and variables, subcommands and flags of shop, links and paths.
func TestDocsNameWhatExists(t *testing.T) {
	makefile := readDoc(t, "Makefile")
	seen := map[string]int{}
	for name, text := range docs(t) {
		for _, command := range commandsOf(text) {
			for _, call := range makeCall.FindAllStringSubmatch(command, -1) {
				seen["make"]++
				if !strings.Contains(makefile, "\n"+call[1]+":") {
					t.Errorf("%s: make %s: no such target", name, call[1])
				}
				for _, assignment := range strings.Fields(call[2]) {
					if variable, _, _ := strings.Cut(assignment, "="); !strings.Contains(makefile, "$("+variable+")") {
						t.Errorf("%s: make %s: no such variable", name, assignment)
					}
				}
			}
			for _, call := range shopCall.FindAllStringSubmatch(command, -1) {
				seen["shop"]++
				cmd, _, err := newRoot("en").Find([]string{call[1]})
				if err != nil || cmd.Name() != call[1] {
					t.Errorf("%s: shop %s: no such command", name, call[1])
					continue
				}
				for _, f := range longFlag.FindAllStringSubmatch(call[2], -1) {
					seen["flag"]++
					if flag := cmd.Flags().Lookup(f[1]); flag == nil || flag.Hidden {
						t.Errorf("%s: shop %s --%s: no such flag, or its old spelling", name, call[1], f[1])
					}
				}
			}
			if ourPath.MatchString(command) {
				wantExists(t, name, command)
				seen["path"]++
			}
		}
		for _, link := range linkTarget.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(link[1], "://") {
				seen["link"]++
				wantExists(t, name, filepath.Join(filepath.Dir(name), link[1]))
			}
		}
	}
	for _, kind := range []string{"make", "shop", "flag", "path", "link"} {
		if seen[kind] == 0 {
			t.Errorf("found no %s at all: the test does not see what it should", kind)
		}
	}
}

func wantExists(t *testing.T, doc, path string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, path)); err != nil {
		t.Errorf("%s: %v", doc, err)
	}
}

// TestReadmeProblems: the table of problem codes is complete and right.
func TestReadmeProblems(t *testing.T) {
	for _, name := range readmes {
		got := map[api.Code]int{}
		for line := range strings.Lines(readDoc(t, name)) {
			cells := cellsOf(line)
			if len(cells) != 3 {
				continue
			}
			status, err := strconv.Atoi(cells[2])
			if err != nil {
				continue
			}
			for _, code := range span.FindAllStringSubmatch(cells[1], -1) {
				got[api.Code(code[1])] = status
			}
		}
		want := map[api.Code]int{}
		for code, facts := range api.Codes {
			want[code] = facts.Status
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: codes (-want +got):\n%s", name, diff)
		}
	}
}

// TestReadmeBegins: the first command stands where it is seen at once, and nothing has grown too long.
func TestReadmeBegins(t *testing.T) {
	for _, name := range readmes {
		text := readDoc(t, name)
		before, _, ok := strings.Cut(text, "\n```sh\nmake demo")
		if line := strings.Count(before, "\n") + 3; !ok || line > 25 {
			t.Errorf("%s: make demo is on line %d, want it by line 25", name, line)
		}
		if n := strings.Count(text, "\n"); n > 250 {
			t.Errorf("%s has %d lines, want at most 250", name, n)
		}
		for _, block := range fences.FindAllString(text, -1) { // a wider one scrolls sideways in a browser
			for line := range strings.Lines(block) {
				if n := columns.Width(strings.TrimRight(line, "\n")); n > 110 {
					t.Errorf("%s: a line of code of %d columns, want at most 110: %s", name, n, line)
				}
			}
		}
	}
}

// TestReadmeCurls runs every curl of the README, in order, against a stack with embedded backends; each must answer the
// status that its comment begins with.
func TestReadmeCurls(t *testing.T) {
	t.Parallel()
	testenv.Program(t, "curl", "curl")
	stack := embeddedStack(t, 3)
	curled := map[string]bool{} // the modes that a curl succeeded with, or told what they lack
	for _, command := range outlineOf(readDoc(t, "README.md")).Commands {
		if !strings.HasPrefix(command, "curl ") {
			continue
		}
		at := strings.LastIndex(command, " ")
		command, want := command[:at], command[at+1:]
		if statusOf(want) == "" {
			t.Errorf("%s: no comment says which status it answers", command)
			continue
		}
		if strings.Contains(command, "/deduct_stock/MODE?") {
			curlAny(t, stack, command, curled)
			continue
		}
		status, body := curl(t, stack, command)
		if status != want {
			t.Errorf("%s\nanswers %s, want %s: %s", command, status, want, body)
		}
		for _, m := range stock.Modes() {
			if status == strconv.Itoa(http.StatusOK) && strings.Contains(command, "/deduct_stock/"+m.Name) {
				curled[m.Name] = true
			}
		}
	}
	for _, m := range stock.Modes() {
		if !curled[m.Name] {
			t.Errorf("no curl of the README deducts by %s", m.Name)
		}
	}
}

// embeddedStack starts a shop with embedded backends.
func embeddedStack(t *testing.T, replicas int) *localstack.Stack {
	t.Helper()
	stack, err := localstack.Start(t.Context(), localstack.Options{
		Replicas: replicas, Backend: localstack.Embedded, Binary: program(t), Log: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stack.Close(); err != nil {
			t.Error(err)
		}
	})
	return stack
}

// curlAny runs the curl that stands for every mode: it deducts, or says what the mode lacks where GET /modes says so too.
func curlAny(t *testing.T, stack *localstack.Stack, command string, curled map[string]bool) {
	t.Helper()
	_, listed := curl(t, stack, "curl localhost:8080/modes")
	var all api.Modes
	if err := json.Unmarshal([]byte(listed), &all); err != nil || len(all.Modes) != len(stock.Modes()) {
		t.Fatalf("GET /modes lists %d modes, %v, want all %d", len(all.Modes), err, len(stock.Modes()))
	}
	for _, m := range all.Modes {
		if m.KeyRequired { // has a curl of its own
			continue
		}
		want, says := "200", `"order_id"`
		if !m.Available {
			want, says = "503", "mode_unavailable"
		}
		status, body := curl(t, stack, strings.Replace(command, "MODE", m.Name, 1))
		if status != want || !strings.Contains(body, says) {
			t.Errorf("%s by %s answers %s, want %s with %s: %s", command, m.Name, status, want, says, body)
		}
		curled[m.Name] = true
	}
}

// curl runs a curl line in a shell, with the address of the stack for localhost:8080 and its admin token in the
// environment, and returns the status and the body.
func curl(t *testing.T, stack *localstack.Stack, line string) (status, body string) {
	t.Helper()
	line = strings.ReplaceAll(line, "localhost:8080", stack.Balancer.Addr)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line+` --silent --show-error --max-time 30 --write-out '\n%{http_code}'`)
	cmd.Env = append(os.Environ(), envToken+"="+stack.Token)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, stderr.String())
	}
	at := bytes.LastIndexByte(out, '\n')
	return string(out[at+1:]), string(out[:at])
}
