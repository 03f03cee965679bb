package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the generated parts of the documents, or the traces")

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

// docs reads every document, by path from the root, but for the changelog, which says what was.
func docs(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := strings.TrimPrefix(filepath.ToSlash(file), root+"/")
			all[name] = readDoc(t, name)
		}
	}
	delete(all, "CHANGELOG.md")
	return all
}

// other is the name of a document in the other language.
func other(name string) string {
	if base, ok := strings.CutSuffix(name, ".zh.md"); ok {
		return base + ".md"
	}
	return strings.TrimSuffix(name, ".md") + ".zh.md"
}

// outline is what two translations of one text share.
type outline struct {
	Headings []string // only their levels: "#", "##"
	Markers  []string
	Commands []string   // lines of shell blocks, without comments; after a curl, the status that its comment begins with
	Code     []string   // other blocks; of one that may hold translated words, only its kind and its number of lines
	Rows     [][]string // of tables: the cells that are in no language, see fact, sorted
	Links    []string   // where they lead, without a fragment
}

var (
	// wordsOfNote are the words of a note in a diagram, which are in the language of the page.
	wordsOfNote = regexp.MustCompile(`(?m)^(Note over [^:]*): .*$`)
	marker      = regexp.MustCompile(`^<!-- [a-z]+:(begin|end) -->$`)
	// fact is a cell with a command, a verdict or a number alone.
	fact = regexp.MustCompile("^(`[^`]+ [^`]+`|[✓✗½]|[0-9.,]+)$")
	// translated ends the name of a document or a picture that is there in both languages.
	translated = regexp.MustCompile(`\.(?:en|zh)(\.md|\.webp)\b`)
)

func outlineOf(text string) outline {
	var o outline
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

func (o *outline) block(kind string, lines []string) {
	switch kind {
	case "sh":
		for _, l := range strings.Split(strings.ReplaceAll(strings.Join(lines, "\n"), "\\\n", ""), "\n") {
			command, comment := splitComment(l)
			if strings.HasPrefix(command, "curl ") {
				command = strings.TrimSpace(command + " " + leadingStatus.FindString(comment))
			}
			o.Commands = append(o.Commands, command)
		}
	case "", "text":
		o.Code = append(o.Code, fmt.Sprintf("text of %d lines", len(lines)))
	default:
		o.Code = append(o.Code, wordsOfNote.ReplaceAllString(strings.Join(lines, "\n"), "$1"))
	}
}

func (o *outline) prose(line string) {
	for _, l := range markdownLink.FindAllStringSubmatch(line, -1) {
		target, _, _ := strings.Cut(l[1], "#")
		o.Links = append(o.Links, translated.ReplaceAllString(target, "$1"))
	}
	switch cells := cellsOf(line); {
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

// leadingStatus is the HTTP status that a comment begins with.
var leadingStatus = regexp.MustCompile(`^[1-5]\d\d\b`)

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

// tablesOf reads the tables of a page, each a list of rows without its head.
func tablesOf(t *testing.T, name string) (tables [][][]string) {
	t.Helper()
	inside := false
	for line := range strings.Lines(readDoc(t, name)) {
		cells := cellsOf(line)
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

var (
	fences       = regexp.MustCompile("(?ms)^ *```.*?\\n *```$")
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ (.*)$`)
	anchor       = regexp.MustCompile(`<a id="([^"]+)"></a>`)
	notInSlug    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchorsOf are the fragments that lead into a page: of its headings, as GitHub makes them, and of its anchors.
func anchorsOf(text string) map[string]bool {
	all := map[string]bool{}
	text = fences.ReplaceAllString(text, "")
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		all[strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(h[1])), ""), " ", "-")] = true
	}
	for _, a := range anchor.FindAllStringSubmatch(text, -1) {
		all[a[1]] = true
	}
	return all
}

// TestTranslationsAgree: both languages of a document have the same sections, tables, markers, code, commands and
// links.
func TestTranslationsAgree(t *testing.T) {
	t.Parallel()
	all := docs(t)
	for name, zh := range all {
		switch {
		case !strings.HasSuffix(name, ".zh.md"):
			oneLanguage := name == "CONTRIBUTING.md" || strings.HasPrefix(name, "docs/decisions/") ||
				strings.HasPrefix(name, "examples/")
			if all[other(name)] == "" && !oneLanguage {
				t.Errorf("%s: there is no %s", name, other(name))
			}
		default:
			if diff := cmp.Diff(outlineOf(all[other(name)]), outlineOf(zh)); diff != "" {
				t.Errorf("%s and %s differ (-en +zh):\n%s", other(name), name, diff)
			}
		}
	}
}

// TestLinks: a link leads to a file that is there, and into it to a heading or an anchor; every block is closed.
func TestLinks(t *testing.T) {
	t.Parallel()
	seen := map[bool]int{} // links with a fragment, and without
	all := docs(t)
	for name, text := range all {
		prose := fences.ReplaceAllString(text, "")
		if strings.Contains(prose, "```") {
			t.Errorf("%s: a block is not closed", name)
		}
		for _, l := range markdownLink.FindAllStringSubmatch(prose, -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			target, fragment, within := strings.Cut(l[1], "#")
			path := name
			if target != "" {
				path = filepath.ToSlash(filepath.Join(filepath.Dir(name), target))
			}
			wantExists(t, name, path)
			if within && !anchorsOf(all[path])[fragment] {
				t.Errorf("%s: %s leads nowhere", name, l[1])
			}
			seen[within]++
		}
	}
	if seen[true] < 4 || seen[false] < 100 {
		t.Errorf("%v links: the test does not see what it should", seen)
	}
}

func wantExists(t *testing.T, doc, path string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, path)); err != nil {
		t.Errorf("%s: %v", doc, err)
	}
}

// between holds what a document shows between two markers against want, or with -update writes it.
func between(t *testing.T, name, of, want string) {
	t.Helper()
	begin, end := "<!-- "+of+":begin -->\n", "<!-- "+of+":end -->\n"
	text := readDoc(t, name)
	before, rest, ok := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s: want %s... %s", name, begin, end)
	}
	whole := before + begin + want + end + after
	if *update {
		if err := os.WriteFile(filepath.Join(root, name), []byte(whole), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(whole, text); diff != "" {
		t.Errorf("%s: run 'make generate' (-want +got):\n%s", name, diff)
	}
}
