package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/docs"
	"lastitem/faultlab/stepper"
	"lastitem/internal/cli"
	"lastitem/internal/stock"
	"lastitem/internal/stock/pages"
	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/doctest"
	"lastitem/testkit/testenv"
)

var (
	shopCall = regexp.MustCompile(`(?:^|[\s/])shop ([a-z][a-z-]*)([^|;&]*)`)
	longFlag = regexp.MustCompile(`(?:^|\s)--([a-z][a-z-]*)`)
	quoted   = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	faultIn  = regexp.MustCompile(`bin/shop lab .*--fault ([a-z,-]+)`)
)

// TestDocsNameCommands: the documents name commands of shop, flags and faults that are there. (What else they name is
// tested in docs.)
func TestDocsNameCommands(t *testing.T) {
	t.Parallel()
	shop, seen := newRoot("en"), map[string]int{}
	for doc, text := range doctest.All(t) {
		for _, command := range doctest.Named(text) {
			for _, call := range shopCall.FindAllStringSubmatch(quoted.ReplaceAllString(command, "''"), -1) {
				seen["command"]++
				cmd, _, err := shop.Find(call[1:2])
				if err != nil || cmd.Name() != call[1] {
					t.Errorf("%s: shop %s: no such command", doc, call[1])
					continue
				}
				flags, _, _ := strings.Cut(call[2], " -- ") // the rest is of another program
				for _, f := range longFlag.FindAllStringSubmatch(flags, -1) {
					seen["flag"]++
					if cmd.Flags().Lookup(f[1]) == nil {
						t.Errorf("%s: shop %s --%s: no such flag", doc, call[1], f[1])
					}
				}
			}
			for _, names := range faultIn.FindAllStringSubmatch(command, -1) {
				for name := range strings.SplitSeq(names[1], ",") {
					seen["fault"]++
					if !slices.Contains(faultNames(), name) {
						t.Errorf("%s: %s: no fault %q", doc, command, name)
					}
				}
			}
		}
	}
	for _, kind := range []string{"command", "flag", "fault"} {
		if seen[kind] < 10 {
			t.Errorf("found %d of %s: the test does not see what it should", seen[kind], kind)
		}
	}
}

// TestModesWritten: 'shop modes' prints the table of the READMEs and writes the pages. (That they are what docs/ has is
// tested there.)
func TestModesWritten(t *testing.T) {
	t.Parallel()
	code, table, errOut := commandLine(t.Context(), newModes("en"), "-o", "markdown", "--lang", "zh")
	if code != cli.ExitOK || table != pages.Table("zh") {
		t.Errorf("shop modes -o markdown: exit %d, %s: %s", code, errOut, table)
	}
	dir := t.TempDir()
	if code, _, errOut := commandLine(t.Context(), newModes("en"), "--docs", dir); code != cli.ExitOK {
		t.Fatalf("shop modes --docs: exit %d: %s", code, errOut)
	}
	written, err := filepath.Glob(filepath.Join(dir, "modes", "*.md"))
	if err != nil || len(written) != 2*len(stock.Modes()) {
		t.Errorf("shop modes --docs wrote %d pages (%v), want two per mode", len(written), err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "modes", "unsafe.zh.md"))
	if err != nil || string(text) != doctest.Read(t, "docs/modes/unsafe.zh.md") {
		t.Errorf("shop modes --docs: %v, %s, want docs/modes/unsafe.zh.md", err, text)
	}
}

// TestCurls runs every curl of the README and then of docs/http.md, in order, against a stack with embedded backends;
// each must answer the status that its comment begins with.
func TestCurls(t *testing.T) {
	t.Parallel()
	testenv.Program(t, "curl", "curl")
	running := startStack(t, stack.Options{Replicas: 3, Backend: stack.Embedded})
	curled := map[string]bool{} // the modes that a curl succeeded with, or told what they lack
	last := map[string]string{} // $RESERVATION, $ORDER and $TICKET: those of the last answers that had one
	for _, command := range slices.Concat(doctest.OutlineOf(doctest.Read(t, "README.md")).Commands,
		doctest.OutlineOf(doctest.Read(t, "docs/http.md")).Commands) {
		if pause, is := strings.CutPrefix(command, "sleep "); is { // until a deadline has passed
			seconds, err := time.ParseDuration(pause + "s")
			testkit.Must(t, err)
			time.Sleep(seconds)
		}
		if !strings.HasPrefix(command, "curl ") {
			continue
		}
		command = os.Expand(command, func(name string) string { return cmp.Or(last[name], "$"+name) })
		at := strings.LastIndex(command, " ")
		command, want := command[:at], command[at+1:]
		if doctest.Status.FindString(want) == "" {
			t.Errorf("%s: no comment says which status it answers", command)
			continue
		}
		if strings.Contains(command, "/MODE?") {
			curlAny(t, running, command, curled)
			continue
		}
		status, body := curl(t, running, command)
		if status != want {
			t.Errorf("%s\nanswers %s, want %s: %s", command, status, want, body)
		}
		for _, id := range idOf.FindAllStringSubmatch(body, -1) {
			last[strings.ToUpper(id[1])] = id[2]
		}
		for _, m := range stock.Modes() {
			if strings.HasPrefix(status, "20") && strings.Contains(command, "/deduct_stock/"+m.Name) {
				curled[m.Name] = true
			}
		}
	}
	for _, m := range stock.Modes() {
		if !curled[m.Name] {
			t.Errorf("no curl deducts by %s", m.Name)
		}
	}
}

var idOf = regexp.MustCompile(`"(reservation|order|ticket)_id":"([^"]+)"`)

// curlAny runs the curl that stands for every mode that sells, or that holds: it does, or says what the mode lacks
// where GET /modes says so too.
func curlAny(t *testing.T, running *stack.Stack, command string, curled map[string]bool) {
	t.Helper()
	_, listed := curl(t, running, "curl localhost:8080/modes")
	var all api.Modes
	if err := json.Unmarshal([]byte(listed), &all); err != nil || len(all.Modes) != len(stock.Modes()) {
		t.Fatalf("GET /modes lists %d modes, %v, want all %d", len(all.Modes), err, len(stock.Modes()))
	}
	for _, m := range all.Modes {
		holds := strings.Contains(command, "/reserve_stock/")
		if m.KeyRequired || m.Tickets || m.Reserves != holds { // has a curl of its own
			continue
		}
		want, says := "200", `"order_id"`
		if holds {
			want, says = "201", `"reservation_id"`
		}
		if !m.Available {
			want, says = "503", "mode_unavailable"
		}
		status, body := curl(t, running, strings.Replace(command, "MODE", m.Name, 1))
		if status != want || !strings.Contains(body, says) {
			t.Errorf("%s by %s answers %s, want %s with %s: %s", command, m.Name, status, want, says, body)
		}
		curled[m.Name] = true
	}
}

// TestTeach runs each command of the class's plan, which must show what the plan says, and those of its shared server,
// and holds the list of lessons against those of the page Step.
func TestTeach(t *testing.T) {
	testenv.Slow(t, "plays ten demos and cells of the lab")
	testenv.Installed(t, stack.Redis, stack.MySQL)
	shop, page := program(t), doctest.Read(t, "docs/teach.md")
	for _, l := range (&stepper.Stepper{}).Lessons() {
		for _, lang := range []string{"en", "zh"} {
			if !strings.Contains(doctest.Read(t, docs.Name("docs/teach", lang)), "| "+l.Title.In(lang)+" |") {
				t.Errorf("docs/teach, %s: no lesson %q", lang, l.Title.In(lang))
			}
		}
	}
	t.Chdir(t.TempDir()) // a demo writes out/demo.json
	ran := 0
	for _, row := range slices.Concat(doctest.Tables(page)...) {
		command, is := strings.CutPrefix(strings.Trim(row[min(2, len(row)-1)], "`"), "bin/shop ")
		if !is {
			continue
		}
		ran++
		out, errOut, code := shopSays(t, shop, strings.Fields(command)...)
		if want := strings.Trim(row[3], "`"); code != cli.ExitOK || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d, want %q in\n%s%s", command, code, want, out, errOut)
		}
	}
	running := startStack(t, stack.Options{Replicas: 3, Backend: stack.Embedded})
	t.Setenv(envToken, running.Token)
	for _, command := range doctest.OutlineOf(page).Commands {
		args, is := strings.CutPrefix(command, "bin/shop ")
		if !is || !strings.Contains(args, "--product") {
			continue
		}
		ran++
		args += " --url " + running.URL
		if out, errOut, _ := shopSays(t, shop, strings.Fields(args)...); !strings.Contains(out, "BROKEN") {
			t.Errorf("%s: want BROKEN in\n%s%s", command, out, errOut)
		}
	}
	if ran != 12 {
		t.Errorf("ran %d commands, want the plan's ten and the shared server's two", ran)
	}
}

// foundRow is what a report of the lab says of a fault, without the number of schedules, and its all-clear.
var foundRow = regexp.MustCompile(`(?m)^(?:[a-z-]+ +[.A-Z–]+ +|Nothing that was played broke it: .*)`)

// TestTutorial runs the commands of the tutorial and of the page on fronts, and holds each fault's row of their reports
// against those that the pages show.
func TestTutorial(t *testing.T) {
	testenv.Slow(t, "plays every fault on a service, and on its repair")
	t.Parallel()
	testenv.Installed(t, stack.Redis, stack.MySQL)
	testenv.Program(t, "python3", "python3")
	dir, ran := t.TempDir(), 0
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	testkit.Must(t, os.Link(program(t), filepath.Join(dir, "bin", "shop")))
	testkit.Must(t, os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../../examples")))
	for _, page := range []string{"docs/lab-anybody.md", "docs/front.md"} {
		said := ""
		for _, block := range doctest.Fences.FindAllString(doctest.Read(t, page), -1) {
			for _, row := range foundRow.FindAllString(block, -1) {
				if !strings.Contains(said, "\n"+row) {
					t.Errorf("%s: want %q in\n%s", page, row, said)
				}
			}
			for _, command := range doctest.OutlineOf(block).Commands {
				words := strings.Fields(command)
				cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
				switch cmd.Dir = dir; {
				case words[0] == "go":
					cmd.Dir, cmd.Args[3] = "../..", filepath.Join(dir, words[3])
				case !strings.HasPrefix(command, "bin/shop lab --replay") && !strings.HasPrefix(command, "examples/"):
					continue
				}
				out, _ := cmd.CombinedOutput() // a lab that finds something ends with 1
				said, ran = string(out), ran+1
				if strings.Contains(command, "--replay") && !strings.Contains(said, "O 5/5") {
					t.Errorf("%s: want O 5/5 in\n%s", command, said)
				}
			}
		}
	}
	if ran != 8 {
		t.Errorf("ran %d commands, want 8", ran)
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
		for _, cell := range slices.Concat(slices.Concat(doctest.Tables(doctest.Read(t, name))...)...) {
			if strings.HasPrefix(cell, "`curl ") {
				commands = append(commands, strings.Trim(cell, "`"))
			}
		}
		if len(commands) == n {
			t.Errorf("%s has no curl at all: the test does not see what it should", name)
		}
	}
	running := startStack(t, stack.Options{Replicas: 1, Backend: stack.Embedded})
	testkit.Must(t, firstStock(t.Context(), running))
	for _, command := range commands {
		want := "200"
		if strings.Contains(command, "& sleep 1; curl") { // while another request holds the lock
			want = "503"
		}
		if status, body := curl(t, running, command); status != want {
			t.Errorf("%s\nanswers %s, want %s: %s", command, status, want, body)
		}
	}
	_, before := curl(t, running, "curl localhost:8080/products/101")
	if err := firstStock(t.Context(), running); err != nil || !strings.Contains(before, `"stock":`) {
		t.Error(err, before)
	}
	if _, after := curl(t, running, "curl localhost:8080/products/101"); after != before {
		t.Errorf("a product that was there: %s, want it left alone: %s", after, before)
	}
	testWriteUpRuns(t, running)
}

// pagesWithCurls are the pages with curls in their tables.
var pagesWithCurls = []string{"docs/write-ups.md", "docs/articles.md", "docs/choose.md"}

// curl runs a curl line in a shell, with the address of the stack for localhost:8080 and its admin token in the
// environment, and returns the status and the body.
func curl(t *testing.T, running *stack.Stack, line string) (status, body string) {
	t.Helper()
	line = strings.ReplaceAll(line, "localhost:8080", running.Balancer.Addr)
	cmd := exec.CommandContext(t.Context(), "sh", "-c",
		line+` --silent --show-error --max-time 30 --write-out '\n%{http_code}'`)
	cmd.Env = append(os.Environ(), envToken+"="+running.Token)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, stderr.String())
	}
	at := bytes.LastIndexByte(out, '\n')
	return string(out[at+1:]), string(out[:at])
}
