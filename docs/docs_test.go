package docs_test

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/testkit"
	"lastitem/testkit/doctest"
)

// root is the root of the repository, seen from this package.
const root = ".."

// langs are the languages of the documents.
var langs = []string{"en", "zh"}

// wantSeen fails a test that has found less than there must be: it does not see what it should.
func wantSeen(t *testing.T, what string, n, least int) {
	t.Helper()
	if n < least {
		t.Errorf("found %d of %s, want at least %d: the test does not see what it should", n, what, least)
	}
}

// TestTranslationsAgree: both languages of a document have the same sections, tables, markers, code, commands and
// links.
func TestTranslationsAgree(t *testing.T) {
	t.Parallel()
	all := doctest.All(t)
	for name, text := range all {
		base, zh := strings.CutSuffix(name, ".zh.md")
		oneLanguage := name == "CONTRIBUTING.md" || strings.HasPrefix(name, "docs/decisions/") ||
			strings.HasPrefix(name, "examples/")
		other := strings.TrimSuffix(name, ".md") + ".zh.md"
		if zh {
			other = base + ".md"
		}
		if all[other] == "" && !oneLanguage {
			t.Errorf("%s: there is no %s", name, other)
		} else if zh {
			if diff := cmp.Diff(doctest.OutlineOf(all[other]), doctest.OutlineOf(text)); diff != "" {
				t.Errorf("%s and %s differ (-en +zh):\n%s", other, name, diff)
			}
		}
	}
}

var (
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	anchor    = regexp.MustCompile(`<a id="([^"]+)"></a>`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchorsOf are the fragments that lead into a page: of its headings, as GitHub makes them, and of its anchors.
func anchorsOf(text string) map[string]bool {
	all := map[string]bool{}
	text = doctest.Fences.ReplaceAllString(text, "")
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		all[strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(h[1])), ""), " ", "-")] = true
	}
	for _, a := range anchor.FindAllStringSubmatch(text, -1) {
		all[a[1]] = true
	}
	return all
}

// TestLinks: a link leads to a file that is there, and into it to a heading or an anchor; every block is closed, and
// every picture is linked.
func TestLinks(t *testing.T) {
	t.Parallel()
	seen := map[bool]int{} // links with a fragment, and without
	all := doctest.All(t)
	all["CHANGELOG.md"] = doctest.Read(t, "CHANGELOG.md")
	linked := map[string]bool{}
	for name, text := range all {
		prose := doctest.Fences.ReplaceAllString(text, "")
		if strings.Contains(prose, "```") {
			t.Errorf("%s: a block is not closed", name)
		}
		for _, l := range doctest.Link.FindAllStringSubmatch(prose, -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			target, fragment, within := strings.Cut(l[1], "#")
			to := name
			if target != "" {
				to = path.Join(path.Dir(name), target)
			}
			wantExists(t, name, to)
			linked[to] = true
			if within && !anchorsOf(all[to])[fragment] {
				t.Errorf("%s: %s leads nowhere", name, l[1])
			}
			seen[within]++
		}
	}
	for _, pattern := range []string{"*.svg", "pictures/*"} {
		pictures, err := filepath.Glob(pattern)
		testkit.Must(t, err)
		wantSeen(t, pattern, len(pictures), 2)
		for _, picture := range pictures {
			if !linked["docs/"+filepath.ToSlash(picture)] {
				t.Errorf("docs/%s: no page links to it", picture)
			}
		}
	}
	wantSeen(t, "links with a fragment", seen[true], 4)
	wantSeen(t, "links", seen[false], 100)
}

func wantExists(t *testing.T, doc, path string) {
	t.Helper()
	_, err := os.Stat(filepath.Join(root, path))
	testkit.Is(t, err, nil, "%s", doc)
}

// TestBlindSpotsHaveTests: each row of what the lab cannot see names its test. (That it is there is tested below.)
// The code that a tutorial shows is the service's.
func TestBlindSpotsHaveTests(t *testing.T) {
	t.Parallel()
	page := doctest.Read(t, "docs/lab-anybody.md")
	_, section, _ := strings.Cut(page, "## What the lab cannot see")
	rows := doctest.Tables(section)[0]
	for _, row := range rows {
		if !ourTest.MatchString(strings.TrimPrefix(row[len(row)-1], "`")) {
			t.Errorf("%s: no test", row[0])
		}
	}
	wantSeen(t, "rows", len(rows), 8)
	service := doctest.Read(t, "examples/thirty/locked.go") + doctest.Read(t, "examples/thirty/guarded.go")
	shown := doctest.Fences.FindAllString(page, -1)
	shown = slices.DeleteFunc(shown, func(block string) bool { return !strings.HasPrefix(block, "```go\n") })
	for _, block := range shown {
		if code := strings.TrimSuffix(strings.TrimPrefix(block, "```go\n"), "```"); !strings.Contains(service, code) {
			t.Errorf("examples/thirty does not have\n%s", code)
		}
	}
	wantSeen(t, "blocks of code", len(shown), 2)
}

var (
	outbound = regexp.MustCompile(`\]\((https?://[^)\s]+)\)`)
	wholeURL = regexp.MustCompile(`\[[^\]]*\]\([^)]*\)`)
	// citation is what must be a link: Name#123 or #123 of an issue, RFC nnnn, a paper by its conference and year.
	citation = regexp.MustCompile(`#\d{2,5}\b|\bRFC ?\d{4}\b|\b(?:SIGMOD|OSDI|SOSP|NSDI|VLDB|ATC) ?\d{4}\b`)
	// redisson is a link to lines of Redisson at one of two tags.
	redisson = regexp.MustCompile(`^https://github\.com/redisson/redisson/blob/redisson-(3\.6\.5|3\.52\.0)/` +
		`redisson/src/main/java/org/redisson/(?:[a-z]+/)?[A-Z]\w+\.java#L(\d+)-L(\d+)$`)
)

// A cited is an outbound link of the documents, and how it was confirmed.
type cited struct {
	URL       string `json:"url"`
	Confirmed bool   `json:"confirmed"` // somebody looked it up, and it says what the documents cite it for
	How       string `json:"how"`       // how it was confirmed; begins with "unverified" if it was not
}

// TestSources: docs/sources.json lists the outbound links, all of them and no other, and says how each was confirmed.
// An issue by its number, an RFC or a paper is a link; a link into Redisson names a tag and lines.
func TestSources(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"opencart#4811", "(#7272)", "RFC 9457", "OSDI 2006"} {
		if !citation.MatchString(c) {
			t.Errorf("%s is not seen as a citation", c)
		}
	}
	used, places := map[string]bool{}, 0
	for name, text := range doctest.All(t) {
		if strings.HasPrefix(name, "examples/") {
			continue
		}
		text = doctest.Fences.ReplaceAllString(text, "")
		for _, l := range outbound.FindAllStringSubmatch(text, -1) {
			used[l[1]] = true
			if !strings.Contains(l[1], "/redisson/blob/") {
				continue
			}
			places++
			m := redisson.FindStringSubmatch(l[1])
			if len(m) == 0 || len(m[2]) > len(m[3]) || len(m[2]) == len(m[3]) && m[2] > m[3] {
				t.Errorf("%s: %s: want a file of Redisson at one of two tags, with lines", name, l[1])
			}
		}
		for line := range strings.Lines(doctest.Span.ReplaceAllString(wholeURL.ReplaceAllString(text, ""), "")) {
			if c := citation.FindString(line); c != "" {
				t.Errorf("%s: %s is not a link: %s", name, c, strings.TrimSpace(line))
			}
		}
	}
	var listed []cited
	testkit.Must(t, json.Unmarshal([]byte(doctest.Read(t, "docs/sources.json")), &listed))
	for _, s := range listed {
		if s.How == "" || s.Confirmed == strings.HasPrefix(s.How, "unverified") {
			t.Errorf("%s: confirmed %t, %q: want what was seen, or why it is unverified", s.URL, s.Confirmed, s.How)
		}
		if !used[s.URL] {
			t.Errorf("docs/sources.json: no document links to %s", s.URL)
		}
	}
	for url := range used {
		if !slices.ContainsFunc(listed, func(s cited) bool { return s.URL == url }) {
			t.Errorf("%s: add it to docs/sources.json, with how it was confirmed", url)
		}
	}
	wantSeen(t, "sources", len(listed), 40)
	wantSeen(t, "places in Redisson", places, 50)
}
