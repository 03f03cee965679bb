package docs_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lastitem/internal/stock"
	"lastitem/internal/testkit"
	"lastitem/internal/testkit/doctest"
)

var (
	makeCall  = regexp.MustCompile(`(?:^|[\s;&])make ([a-z][a-z-]*)((?: [A-Za-z]+=[^ ]*)*)`)
	quoted    = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	ourPath   = regexp.MustCompile(`^(cmd|deploy|docs|internal|loadtest|migrations|scripts|\.ci)/[\w./-]*$`)
	ourTest   = regexp.MustCompile(`^(?:([\w/]+)\.(Test\w+)|go test (?:-v )?-run '\^(\w+)\$' \./(\S+))`)
	modeIn    = regexp.MustCompile(`(?:MODE=|--mode |deduct_stock/)([a-z,-]+)`)
	ofLocks   = regexp.MustCompile(`\b(lock|textbook|handoff|coord|sqllock)\.([A-Z]\w*)`)
	ofHandoff = regexp.MustCompile(`^(?:handoff\.New\(.*\))?\.([A-Z]\w*)\(\w*\)$`)
	ourMethod = regexp.MustCompile("`([A-Za-z]+)\\.([A-Za-z]+)`")
	declares  = regexp.MustCompile(`(?m)^(?:(?:func|type|var|const) |\t)(\w+)|^func \(\w* ?\*?(\w+)[^)]*\) (\w+)`)
)

// declared says what the packages declare, their tests included, by folder from the root and by its last word: "New",
// "keeper.renewDue", "keeper." for a type with methods, and ".renewDue" for a method of any.
func declared(t *testing.T) map[string]map[string]bool {
	t.Helper()
	texts, err := readTexts()
	testkit.Must(t, err)
	all := map[string]map[string]bool{}
	for file, text := range texts {
		if path.Ext(file) != ".go" {
			continue
		}
		for _, m := range declares.FindAllStringSubmatch(text, -1) {
			for _, key := range []string{path.Dir(file), path.Base(path.Dir(file))} {
				if all[key] == nil {
					all[key] = map[string]bool{}
				}
				for _, name := range []string{m[1], m[2] + "." + m[3], m[2] + ".", "." + m[3]} {
					all[key][name] = true
				}
			}
		}
	}
	return all
}

func modeNames() (names []string) {
	for _, m := range stock.Modes() {
		names = append(names, m.Name)
	}
	return names
}

// TestDocsNameWhatExists: what the shell blocks and the code spans of all documents name is there: targets and
// variables of make, tests, modes, paths, and what the packages of locks declare. (The commands of shop are tested in
// cmd/shop.)
func TestDocsNameWhatExists(t *testing.T) {
	t.Parallel()
	makefile, seen, modes := doctest.Read(t, "Makefile"), map[string]int{}, append(modeNames(), "all")
	want := func(kind, doc, name string, there bool) {
		seen[kind]++
		if !there {
			t.Errorf("%s: %s: no such %s", doc, name, kind)
		}
	}
	all := declared(t)
	for doc, text := range doctest.All(t) {
		for _, command := range doctest.Named(text) {
			bare := quoted.ReplaceAllString(command, "''")
			for _, call := range makeCall.FindAllStringSubmatch(bare, -1) {
				want("target", doc, call[1], strings.Contains(makefile, "\n"+call[1]+":"))
				for _, assignment := range strings.Fields(call[2]) {
					variable, _, _ := strings.Cut(assignment, "=")
					want("variable", doc, assignment, strings.Contains(makefile, "$("+variable+")"))
				}
			}
			test, method := ourTest.FindStringSubmatch(command), ofHandoff.FindStringSubmatch(command)
			switch {
			case test != nil:
				want("test", doc, command, all[test[1]+test[4]][test[2]+test[3]])
			case method != nil:
				want("method", doc, command, all["handoff"]["."+method[1]])
			case ourPath.MatchString(bare):
				seen["path"]++
				wantExists(t, doc, bare)
			}
			for _, names := range modeIn.FindAllStringSubmatch(command, -1) {
				for name := range strings.SplitSeq(names[1], ",") {
					want("mode", doc, name, slices.Contains(modes, name))
				}
			}
		}
		for _, m := range ofLocks.FindAllStringSubmatch(text, -1) {
			want("name", doc, m[0], all[m[1]][m[2]])
		}
		for _, m := range ourMethod.FindAllStringSubmatch(text, -1) {
			ours, there := false, false
			for _, folder := range []string{"lock", "textbook", "handoff", "coord", "sqllock"} {
				ours = ours || all[folder][m[1]+"."]
				isField := all[folder][m[1]+"."] && m[2] < "a" && all[folder][m[2]]
				there = there || isField || all[folder][m[1]+"."+m[2]]
			}
			if ours {
				want("method", doc, m[0], there)
			}
		}
	}
	for _, kind := range []string{"target", "variable", "test", "path", "mode", "name", "method"} {
		wantSeen(t, kind, seen[kind], 10)
	}
}
