package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/api"
	"lastitem/internal/localstack"
	layout "lastitem/internal/report"
	"lastitem/internal/stock"
	"lastitem/internal/testkit/testenv"
)

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
				if n := layout.Width(strings.TrimRight(line, "\n")); n > 110 {
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
	stack := startStack(t, localstack.Options{Replicas: 3, Backend: localstack.Embedded})
	curled := map[string]bool{} // the modes that a curl succeeded with, or told what they lack
	for _, command := range outlineOf(readDoc(t, "README.md")).Commands {
		if !strings.HasPrefix(command, "curl ") {
			continue
		}
		at := strings.LastIndex(command, " ")
		command, want := command[:at], command[at+1:]
		if leadingStatus.FindString(want) == "" {
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

// curlAny runs the curl that stands for every mode: it deducts, or says what the mode lacks where GET /modes says so
// too.
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

// TestPageRuns runs the curls of tables in docs/, and a write-up, against a stack with embedded backends, as 'shop up'
// leaves it.
func TestPageRuns(t *testing.T) {
	testenv.Slow(t, "runs the commands of all pages")
	t.Parallel()
	testenv.Program(t, "curl", "curl")
	var commands []string
	for _, name := range pagesWithCurls {
		n := len(commands)
		for line := range strings.Lines(readDoc(t, name)) {
			for _, cell := range cellsOf(line) {
				if strings.HasPrefix(cell, "`curl ") {
					commands = append(commands, strings.Trim(cell, "`"))
				}
			}
		}
		if len(commands) == n {
			t.Errorf("%s has no curl at all: the test does not see what it should", name)
		}
	}
	stack := startStack(t, localstack.Options{Replicas: 1, Backend: localstack.Embedded})
	if err := firstStock(t.Context(), stack); err != nil {
		t.Fatal(err)
	}
	for _, command := range commands {
		if status, body := curl(t, stack, command); status != "200" {
			t.Errorf("%s\nanswers %s, want 200: %s", command, status, body)
		}
	}
	_, before := curl(t, stack, "curl localhost:8080/products/101")
	if err := firstStock(t.Context(), stack); err != nil || !strings.Contains(before, `"stock":`) {
		t.Error(err, before)
	}
	if _, after := curl(t, stack, "curl localhost:8080/products/101"); after != before {
		t.Errorf("a product that was there: %s, want it left alone: %s", after, before)
	}
	testWriteUpRuns(t, stack)
}

// pagesWithCurls are the pages with curls in their tables.
var pagesWithCurls = []string{"docs/write-ups.md", "docs/articles.md", "docs/choose.md"}

// curl runs a curl line in a shell, with the address of the stack for localhost:8080 and its admin token in the
// environment, and returns the status and the body.
func curl(t *testing.T, stack *localstack.Stack, line string) (status, body string) {
	t.Helper()
	line = strings.ReplaceAll(line, "localhost:8080", stack.Balancer.Addr)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line+` --silent --show-error --max-time 30 --write-out `+
		`'\n%{http_code}'`)
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
