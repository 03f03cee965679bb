// Newmode writes the skeleton of a mode: its file, its line in modes.go, its pages, the diagrams and its claims. The
// skeleton is a mode that works and oversells, so that every check passes before the first change: a read-check-write
// on Redis, or with -reserves a mode that holds units in SQL until their buyer pays, with a way of its own to take and
// give them.
//
//	go run ./internal/stock/newmode redis-watch
//	go run ./internal/stock/newmode -reserves reserve-token
//	go run ./internal/stock/newmode -check        # are all modes complete? One message says what is missing
package main

import (
	"bytes"
	"embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"lastitem/internal/stock"
)

//go:embed skeleton
var skeleton embed.FS

// The kinds of modes: the directories of skeleton.
const deducts, reserves = "deducts", "reserves"

// files lists the templates of a kind and their destinations; %s is the mode's name, or its file's.
var files = []struct{ from, to string }{
	{"mode.go.tmpl", "internal/stock/%s.go"},
	{"page.md.tmpl", "docs/modes/%s.md"},
	{"page.zh.md.tmpl", "docs/modes/%s.zh.md"},
	{"diagrams.mmd.tmpl", "internal/stock/doc/%s.mmd"},
}

// The files that get a line.
const list, catalog = "internal/stock/modes.go", "say/text/zh.json"

func main() {
	check := flag.Bool("check", false, "list what the existing modes lack, and write nothing")
	holds := flag.Bool("reserves", false, "a mode that holds units until their buyer pays, instead of one that deducts")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "usage: go run ./internal/stock/newmode [-reserves] NAME     in kebab-case: redis-watch\n"+
			"       go run ./internal/stock/newmode -check\n")
	}
	flag.Parse()
	err := run(*check, map[bool]string{false: deducts, true: reserves}[*holds], flag.Args())
	if err != nil {
		fmt.Fprintf(os.Stderr, "newmode: %v\n", err)
		os.Exit(1)
	}
}

func run(check bool, kind string, args []string) error {
	switch {
	case check && len(args) == 0:
		return stock.Validate(stock.Modes())
	case check || len(args) != 1:
		flag.Usage()
		return errors.New("want the name of one mode")
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	written, err := Write(root, kind, args[0])
	if err != nil {
		return err
	}
	for _, name := range written {
		fmt.Println("wrote", name)
	}
	fmt.Println("generating the pages: a minute or two")
	for _, command := range [][]string{
		{"go", "test", "-count=1", "-run", "^TestClaims$", "./internal/stock", "-update"},
		{"go", "generate", "./cmd/shop", "./docs"},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir, cmd.Stderr = root, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
		}
	}
	fmt.Printf(next, args[0])
	return nil
}

// next is printed at the end: the author's next steps.
const next = `
Now change it, in this order:
  internal/stock/modes.go            move the line to its place in the teaching order
  the mode's file                    the steps, or how it takes and gives; Needs, Stores, Claims
  say/text/zh.json              its title in Chinese, beside the English one
  docs/modes/%[1]s.md and .zh.md     what it does, what breaks it
  docs/write-ups.md and .zh.md       a row: what people say about it, and whether it is so
  internal/stock/doc/%[1]s.mmd       the run that goes well, an empty line, and the one that breaks it, if any does
  go test ./internal/stock           the conformance suite; -run TestClaims -update when the claims changed
  make traces                        the commands on the wire, from real servers
  bin/shop lab --all --mode %[1]s --update faultlab/matrix.json
  bin/shop lab --all --beyond --mode %[1]s --update faultlab/matrix.json, then make generate
  make check
`

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	root := filepath.Dir(strings.TrimSpace(string(out)))
	if _, err := os.Stat(filepath.Join(root, "internal", "stock", "modes.go")); err != nil {
		return "", errors.New("run it in a checkout of lastitem")
	}
	return root, nil
}

var kebab = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)

// Write writes the skeleton of a mode of that kind and name below root, that of the repository, and returns the files.
// It overwrites none.
func Write(root, kind, name string) (written []string, err error) {
	if !kebab.MatchString(name) {
		return nil, fmt.Errorf("%q: want kebab-case, as in redis-watch", name)
	}
	if slices.ContainsFunc(stock.Modes(), func(m stock.Mode) bool { return m.Name == name }) {
		return nil, fmt.Errorf("%q: there is a mode of that name", name)
	}
	modes, err := withLine(filepath.Join(root, list), identifier(name))
	if err != nil {
		return nil, err
	}
	sentences, err := withSentence(filepath.Join(root, catalog), name+": say what it does in one line", name+"：一句话说明做法")
	if err != nil {
		return nil, err
	}
	texts := map[string][]byte{list: modes, catalog: sentences}
	written = []string{list, catalog}
	for _, f := range files {
		text, err := expand(kind+"/"+f.from, name)
		if err != nil {
			return nil, err
		}
		stem := name
		if strings.HasSuffix(f.to, ".go") {
			stem = strings.ReplaceAll(name, "-", "_")
		}
		to := fmt.Sprintf(f.to, stem)
		if _, err := os.Stat(filepath.Join(root, to)); err == nil {
			return nil, fmt.Errorf("%s already exists", to)
		}
		texts[to] = text
		written = append(written, to)
	}
	for _, to := range written {
		if err := os.WriteFile(filepath.Join(root, to), texts[to], 0o600); err != nil {
			return nil, err
		}
	}
	return written, nil
}

func expand(from, name string) ([]byte, error) {
	t, err := template.ParseFS(skeleton, "skeleton/"+from)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, map[string]string{"Name": name, "Var": identifier(name)})
	return b.Bytes(), err
}

// withLine returns modes.go with one more line at the end of the list.
func withLine(file, variable string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	const end = "\n\t}\n}\n"
	if bytes.Count(text, []byte(end)) != 1 {
		return nil, fmt.Errorf("%s does not have the form that this command expects", file)
	}
	return bytes.Replace(text, []byte(end), []byte("\n\t\t"+variable+","+end), 1), nil
}

// withSentence returns the catalog of texts with one more sentence, in the order of the English ones.
func withSentence(file, en, zh string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	line, end := fmt.Sprintf("%q: %q,\n", en, zh), len(text)-len("}\n")
	for at := len("{\n"); at < end; at += bytes.IndexByte(text[at:], '\n') + 1 {
		if string(text[at:min(at+len(line), end)]) > line {
			return slices.Concat(text[:at], []byte(line), text[at:]), nil
		}
	}
	return nil, fmt.Errorf("%s does not have the form that this command expects", file)
}

// identifier is the variable of a mode: that of redis-watch is redisWatchMode. The suffix keeps it from being a word of
// Go or of the package.
func identifier(name string) string {
	parts := strings.Split(name, "-")
	for i, p := range parts[1:] {
		parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
	}
	return strings.Join(parts, "") + "Mode"
}
