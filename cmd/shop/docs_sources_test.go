package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// A cited is an outbound link of the documents, and how it was confirmed.
type cited struct {
	URL       string `json:"url"`
	Confirmed bool   `json:"confirmed"` // somebody looked it up, and it says what the documents cite it for
	How       string `json:"how"`       // how it was confirmed; begins with "unverified" if it was not
}

var (
	outbound = regexp.MustCompile(`\]\((https?://[^)\s]+)\)`)
	wholeURL = regexp.MustCompile(`\[[^\]]*\]\([^)]*\)`)
	codeSpan = regexp.MustCompile("`[^`\n]*`")
	// citation is what must be a link: Name#123 or #123 of an issue, RFC nnnn, a paper by its conference and year.
	citation = regexp.MustCompile(`#\d{2,5}\b|\bRFC ?\d{4}\b|\b(?:SIGMOD|OSDI|SOSP|NSDI|VLDB|ATC) ?\d{4}\b`)
)

// citing are the documents that may cite somebody, without their blocks: not the generated ones.
func citing(t *testing.T) map[string]string {
	t.Helper()
	texts := docs(t)
	for name, text := range texts {
		texts[name] = fences.ReplaceAllString(text, "")
		if strings.HasPrefix(name, "docs/modes/") || strings.HasPrefix(name, "examples/") {
			delete(texts, name)
		}
	}
	return texts
}

// TestSources: docs/sources.json lists the outbound links, all of them and no other, and says how each was confirmed.
func TestSources(t *testing.T) {
	var listed []cited
	if err := json.Unmarshal([]byte(readDoc(t, "docs/sources.json")), &listed); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, text := range citing(t) {
		for _, l := range outbound.FindAllStringSubmatch(text, -1) {
			used[l[1]] = true
		}
	}
	known := map[string]bool{}
	for _, s := range listed {
		known[s.URL] = true
		if s.How == "" || s.Confirmed == strings.HasPrefix(s.How, "unverified") {
			t.Errorf("%s: confirmed %t, %q: want what was seen, or why it is unverified", s.URL, s.Confirmed, s.How)
		}
		if !used[s.URL] {
			t.Errorf("docs/sources.json: no document links to %s", s.URL)
		}
	}
	for url := range used {
		if !known[url] {
			t.Errorf("%s: add it to docs/sources.json, with how it was confirmed", url)
		}
	}
	if len(listed) < 40 {
		t.Errorf("%d sources: the test does not see what it should", len(listed))
	}
}

// TestCitationsAreLinks: an issue by its number, an RFC or a paper is a link.
func TestCitationsAreLinks(t *testing.T) {
	for _, c := range []string{"opencart#4811", "(#7272)", "RFC 9457", "OSDI 2006"} {
		if !citation.MatchString(c) {
			t.Errorf("%s is not seen as a citation", c)
		}
	}
	for file, text := range citing(t) {
		text = codeSpan.ReplaceAllString(wholeURL.ReplaceAllString(text, ""), "")
		for line := range strings.Lines(text) {
			if c := citation.FindString(line); c != "" {
				t.Errorf("%s: %s is not a link: %s", file, c, strings.TrimSpace(line))
			}
		}
	}
}
