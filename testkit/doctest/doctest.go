// Package doctest reads the documents of the repository, for the tests that check them. Start with [All] and
// [OutlineOf].
package doctest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Root returns the root of the repository.
func Root(t *testing.T) string {
	t.Helper()
	for _, up := range []string{".", "..", "../..", "../../.."} {
		if _, err := os.Stat(filepath.Join(up, "go.mod")); err == nil {
			return up
		}
	}
	t.Fatal("run it in the repository")
	return ""
}

// Read returns a file of the repository.
func Read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// All returns every document, by path from the root, but for the changelog, which says what was.
func All(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(Root(t), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := strings.TrimPrefix(filepath.ToSlash(file), Root(t)+"/")
			all[name] = Read(t, name)
		}
	}
	delete(all, "CHANGELOG.md")
	return all
}

// Outline is what two translations of one text share.
type Outline struct {
	Headings []string // only their levels: "#", "##"
	Markers  []string
	Commands []string   // lines of shell blocks, without comments; after a curl, the status that its comment begins with
	Code     []string   // other blocks; of one that may hold translated words, only its kind and its number of lines
	Rows     [][]string // of tables: the cells that are in no language, see fact, sorted
	Links    []string   // where they lead, without a fragment
}

// Fences matches a block of code. Link matches a link, with where it leads. Span matches code in a line. Status matches
// the HTTP status that a comment begins with.
var (
	Fences = regexp.MustCompile("(?ms)^ *```.*?\\n *```$")
	Link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	Span   = regexp.MustCompile("`([^`\n]+)`")
	Status = regexp.MustCompile(`^[1-5]\d\d\b`)
)

var (
	// wordsOfNote are the words of a note in a diagram, which are in the language of the page.
	wordsOfNote = regexp.MustCompile(`(?m)^(Note over [^:]*): .*$`)
	marker      = regexp.MustCompile(`^<!-- [a-z]+:(begin|end) -->$`)
	// fact is a cell with a command, a verdict or a number alone.
	fact = regexp.MustCompile("^(`[^`]+ [^`]+`|[✓✗½]|[0-9.,]+)$")
	// translated ends the name of a document or a picture that is there in both languages.
	translated = regexp.MustCompile(`\.(?:en|zh)(\.md|\.webp)\b`)
)

// OutlineOf reads the outline of a document.
func OutlineOf(text string) Outline {
	var o Outline
	info, block := "", []string(nil)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		kind, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && info == "":
			info = kind + " "
		case fence:
			o.block(strings.TrimSpace(info), block)
			info, block = "", nil
		case info != "":
			block = append(block, line)
		default:
			o.prose(line)
		}
	}
	return o
}

func (o *Outline) block(kind string, lines []string) {
	switch kind {
	case "sh":
		for _, l := range strings.Split(strings.ReplaceAll(strings.Join(lines, "\n"), "\\\n", ""), "\n") {
			command, comment := splitComment(l)
			if strings.HasPrefix(command, "curl ") {
				command = strings.TrimSpace(command + " " + Status.FindString(comment))
			}
			o.Commands = append(o.Commands, command)
		}
	case "", "text":
		o.Code = append(o.Code, fmt.Sprintf("text of %d lines", len(lines)))
	default:
		o.Code = append(o.Code, wordsOfNote.ReplaceAllString(strings.Join(lines, "\n"), "$1"))
	}
}

func (o *Outline) prose(line string) {
	for _, l := range Link.FindAllStringSubmatch(line, -1) {
		target, _, _ := strings.Cut(l[1], "#")
		o.Links = append(o.Links, translated.ReplaceAllString(target, "$1"))
	}
	switch cells := Cells(line); {
	case cells != nil:
		var facts []string
		for _, c := range cells {
			if fact.MatchString(c) {
				facts = append(facts, c)
			}
		}
		slices.Sort(facts)
		o.Rows = append(o.Rows, facts)
	case strings.HasPrefix(line, "#"):
		level, _, _ := strings.Cut(line, " ")
		o.Headings = append(o.Headings, level)
	case marker.MatchString(line):
		o.Markers = append(o.Markers, line)
	}
}

// splitComment cuts a shell line at a # that begins a comment: outside of quotes, at the start or after a blank.
func splitComment(line string) (command, comment string) {
	quote, before := rune(0), ' '
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

// Cells splits a row of a Markdown table; nil where the line is none.
func Cells(line string) []string {
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

// Tables reads the tables of a document, each a list of rows without its head.
func Tables(text string) (tables [][][]string) {
	inside := false
	for line := range strings.Lines(text) {
		cells := Cells(line)
		switch {
		case cells == nil:
			inside = false
		case strings.HasPrefix(cells[0], "---"):
			tables, inside = append(tables, nil), true
		case inside:
			tables[len(tables)-1] = append(tables[len(tables)-1], cells)
		}
	}
	return tables
}

// Named returns the shell lines and the code spans of a document.
func Named(text string) []string {
	all := OutlineOf(text).Commands
	for _, s := range Span.FindAllStringSubmatch(Fences.ReplaceAllString(text, ""), -1) {
		all = append(all, s[1])
	}
	return all
}
