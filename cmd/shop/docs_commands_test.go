package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
)

var (
	span     = regexp.MustCompile("`([^`\n]+)`")
	makeCall = regexp.MustCompile(`(?:^|[\s;&])make ([a-z][a-z-]*)((?: [A-Za-z]+=[^ ]*)*)`)
	shopCall = regexp.MustCompile(`(?:^|[\s/])shop ([a-z][a-z-]*)([^|;&]*)`)
	longFlag = regexp.MustCompile(`(?:^|\s)--([a-z][a-z-]*)`)
	quoted   = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	ourPath  = regexp.MustCompile(`^(cmd|deploy|docs|internal|loadtest|migrations|scripts|\.ci)/[\w./-]*$`)
	ourTest  = regexp.MustCompile(`^(internal/[a-z/]+)\.(Test\w+)$`)
	goTest   = regexp.MustCompile(`^go test (?:-v )?-run '\^(\w+)\$' \./(\S+)`)
	faultIn  = regexp.MustCompile(`bin/shop lab .*--fault ([a-z,-]+)`)
	modeIn   = regexp.MustCompile(`(?:MODE=|--mode |deduct_stock/)([a-z,-]+)`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Example)\w*)\(`)
)

// commands knows what a command of a document may name, and counts what it has found.
type commands struct {
	t        *testing.T
	makefile string
	root     *cobra.Command
	modes    []string
	seen     map[string]int
}

func newCommands(t *testing.T) *commands {
	t.Helper()
	return &commands{
		t: t, makefile: readDoc(t, "Makefile"), root: newRoot("en"), modes: modeNames(), seen: map[string]int{},
	}
}

// want checks that what a command names exists: targets and variables of make, commands and flags of shop, tests,
// faults, modes, paths.
func (c *commands) want(doc, command string) {
	c.t.Helper()
	bare := quoted.ReplaceAllString(command, "''")
	for _, call := range makeCall.FindAllStringSubmatch(bare, -1) {
		c.seen["make"]++
		if !strings.Contains(c.makefile, "\n"+call[1]+":") {
			c.t.Errorf("%s: make %s: no such target", doc, call[1])
		}
		for _, assignment := range strings.Fields(call[2]) {
			if variable, _, _ := strings.Cut(assignment, "="); !strings.Contains(c.makefile, "$("+variable+")") {
				c.t.Errorf("%s: make %s: no such variable", doc, assignment)
			}
		}
	}
	for _, call := range shopCall.FindAllStringSubmatch(bare, -1) {
		c.wantShop(doc, call[1], call[2])
	}
	test := ourTest.FindStringSubmatch(command)
	if call := goTest.FindStringSubmatch(command); call != nil {
		test = []string{command, call[2], call[1]}
	}
	if test != nil {
		c.seen["test"]++
		if !slices.Contains(testsIn(c.t, test[1]), test[2]) {
			c.t.Errorf("%s: %s: no such test", doc, command)
		}
	}
	for _, kind := range []struct {
		name  string
		in    *regexp.Regexp
		known []string
	}{{"fault", faultIn, faultNames()}, {"mode", modeIn, append(c.modes, "all")}} {
		for _, names := range kind.in.FindAllStringSubmatch(command, -1) {
			for name := range strings.SplitSeq(names[1], ",") {
				c.seen[kind.name]++
				if !slices.Contains(kind.known, name) {
					c.t.Errorf("%s: %s: no %s %q", doc, command, kind.name, name)
				}
			}
		}
	}
	if test == nil && ourPath.MatchString(bare) {
		c.seen["path"]++
		wantExists(c.t, doc, bare)
	}
}

// wantShop checks a command of shop and its flags.
func (c *commands) wantShop(doc, name, args string) {
	c.t.Helper()
	c.seen["shop"]++
	cmd, _, err := c.root.Find([]string{name})
	if err != nil || cmd.Name() != name {
		c.t.Errorf("%s: shop %s: no such command", doc, name)
		return
	}
	for _, f := range longFlag.FindAllStringSubmatch(args, -1) {
		c.seen["flag"]++
		if cmd.Flags().Lookup(f[1]) == nil {
			c.t.Errorf("%s: shop %s --%s: no such flag", doc, name, f[1])
		}
	}
}

// wantCell checks a command in a table: one of a kind that we have.
func (c *commands) wantCell(doc, cell string) (command string) {
	c.t.Helper()
	command = strings.Trim(cell, "`")
	kind, _, _ := strings.Cut(command, " ")
	ok := kind == "make" || kind == "curl"
	switch {
	case strings.HasPrefix(command, "go test "):
		ok = goTest.MatchString(command)
	case kind == "bin/shop":
		ok = shopCall.MatchString(command)
	}
	if !ok {
		c.t.Errorf("%s: %s: want make, curl, bin/shop, or one test of one package", doc, command)
	}
	c.want(doc, command)
	return command
}

// TestDocsNameWhatExists: what the shell blocks and the code spans of all documents name is there.
func TestDocsNameWhatExists(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	for name, text := range docs(t) {
		for _, command := range outlineOf(text).Commands {
			c.want(name, command)
		}
		for _, s := range span.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
			c.want(name, s[1])
		}
	}
	for _, kind := range []string{"make", "shop", "flag", "test", "fault", "mode", "path"} {
		if c.seen[kind] < 10 {
			t.Errorf("found %d of %s: the test does not see what it should", c.seen[kind], kind)
		}
	}
}

// testsByFolder keeps what testsIn has found.
var testsByFolder sync.Map

// testsIn lists the tests and examples of a package, by its folder from the root.
func testsIn(t *testing.T, dir string) []string {
	t.Helper()
	if names, ok := testsByFolder.Load(dir); ok {
		return names.([]string)
	}
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s (%v)", dir, err)
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range testFunc.FindAllStringSubmatch(string(text), -1) {
			names = append(names, f[1])
		}
	}
	testsByFolder.Store(dir, names)
	return names
}
