package console

import (
	"cmp"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

// section is what stands below one heading.
type section struct {
	page, heading, anchor, text string
	lower                       string   // of all of it
	rows                        []string // of its tables
}

// Hit is a section that has all words that were asked for.
type Hit struct {
	Page    string `json:"page"`
	Title   string `json:"title"`
	Heading string `json:"heading"`
	Anchor  string `json:"anchor"`
	// Before, Match and After are a piece of the text around the first word.
	Before string `json:"before"`
	Match  string `json:"match"`
	After  string `json:"after"`
}

// The limits of an answer.
const (
	maxHits  = 30
	maxQuery = 200
	around   = 70 // runes on either side of a hit
	longWord = 24 // a longer word is cut in the middle
)

// sections cuts all pages of a language at their headings.
func (b *Book) sections(lang string) (all []section) {
	for _, name := range b.order {
		source, err := fs.ReadFile(b.files, b.fileOf(name, lang))
		if err != nil {
			continue
		}
		_, doc := parse(source)
		now := section{page: name, heading: b.titleIn(name, lang)}
		flush := func() {
			now.text = strings.TrimSpace(now.text)
			now.lower = strings.ToLower(b.titleIn(name, lang) + "\n" + now.heading + "\n" + now.text)
			all = append(all, now)
		}
		for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
			heading, is := n.(*ast.Heading)
			if !is {
				if leads(n, source) {
					continue
				}
				now.text += plain(n, source) + " "
				if table, is := n.(*extast.Table); is {
					for row := table.FirstChild(); row != nil; row = row.NextSibling() {
						now.rows = append(now.rows, plain(row, source))
					}
				}
				continue
			}
			if heading.Level > 1 {
				flush()
				id, _ := heading.AttributeString("id")
				anchor, _ := id.([]byte)
				now = section{page: name, heading: plain(n, source), anchor: string(anchor)}
			}
		}
		flush()
	}
	return all
}

// leads reports whether a paragraph only leads to other pages: all modes, the other language, the next page.
func leads(n ast.Node, source []byte) bool {
	links := 0
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		switch x := child.(type) {
		case *ast.Link:
			links++
		case *ast.Text:
			if strings.Trim(string(x.Segment.Value(source)), " ·") != "" {
				return false
			}
		default:
			return false
		}
	}
	return links > 0
}

// outcome matches a cell of a claims table. Without its row and column it says nothing.
var outcome = regexp.MustCompile(`^[\s()./–OLDXABU]*$`)

// plain is the text of a node, without its markup.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch x := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(x.Segment.Value(source))
				if x.SoftLineBreak() || x.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.FencedCodeBlock:
			if entering && string(x.Language(source)) != "mermaid" {
				b.Write(x.Lines().Value(source))
			}
		case *ast.CodeBlock:
			if entering {
				b.Write(x.Lines().Value(source))
			}
		case *extast.TableCell:
			if !entering {
				return ast.WalkContinue, nil
			}
			if outcome.Match(x.Lines().Value(source)) {
				return ast.WalkSkipChildren, nil
			}
			if b.Len() > 0 {
				b.WriteString(" · ")
			}
		default:
			if !entering && n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// Search returns the sections that have all words, the best first.
func (b *Book) Search(query, lang string) []Hit {
	hits := []Hit{}
	index, known := b.index[lang]
	words := strings.Fields(strings.ToLower(query))
	if !known || len(words) == 0 || len(query) > maxQuery {
		return hits
	}
	type scored struct {
		section
		score int
	}
	var found []scored
	for _, s := range index() {
		if score := b.score(s, lang, words); score > 0 {
			found = append(found, scored{s, score})
		}
	}
	slices.SortStableFunc(found, func(x, y scored) int { return cmp.Compare(y.score, x.score) })
	for _, f := range found[:min(maxHits, len(found))] {
		hit := Hit{Page: f.page, Title: b.titleIn(f.page, lang), Heading: f.heading, Anchor: f.anchor}
		if row, _ := f.row(words); row != "" {
			hit.Before, hit.Match, hit.After = excerpt(row, words, 3*around)
		} else {
			hit.Before, hit.Match, hit.After = excerpt(f.text, words, around)
		}
		hits = append(hits, hit)
	}
	return hits
}

// hasAll reports whether a text has all words.
func hasAll(text string, words []string) bool {
	text = strings.ToLower(text)
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

// row returns the row of a table that has several words which were asked for together, and what it is worth: a row that
// has all of them in its first cell is about them.
func (s section) row(words []string) (row string, worth int) {
	if len(words) < 2 {
		return "", 0
	}
	for _, r := range s.rows {
		first, _, _ := strings.Cut(r, " · ")
		if hasAll(first, words) {
			return r, 40
		}
		if worth == 0 && hasAll(r, words) {
			row, worth = r, 15
		}
	}
	return row, worth
}

// score is 0 where a word is missing. Several words count most where one heading or one row of a table has them all; a
// word counts most in the title of the page, then in the heading, and all of them more if they stand together.
func (b *Book) score(s section, lang string, words []string) int {
	name, heading := strings.ToLower(s.page+" "+b.titleIn(s.page, lang)), strings.ToLower(s.heading)
	total := 0
	if strings.Contains(s.lower, strings.Join(words, " ")) {
		total = 6
	}
	if len(words) > 1 && hasAll(heading, words) {
		total += 50
	}
	_, worth := s.row(words)
	total += worth
	for _, w := range words {
		n := strings.Count(s.lower, w)
		if n == 0 {
			return 0
		}
		total += min(n, 4)
		if strings.Contains(heading, w) {
			total += 6
		}
		if strings.Contains(name, w) {
			total += 4
			if s.anchor == "" {
				total += 8
			}
		}
	}
	return total
}

// excerpt cuts so many runes of the text on both sides of the first of the words that it has. It begins and ends
// between words, with a sign where more text follows.
func excerpt(text string, words []string, around int) (before, match, after string) {
	runes, lower := []rune(text), []rune(strings.ToLower(text))
	for _, w := range words {
		head, _, found := strings.Cut(string(lower), w)
		if !found || len(runes) != len(lower) {
			continue
		}
		from := len([]rune(head))
		to := from + len([]rune(w))
		_, before = cut(runes[:from], max(0, from-around), 1)
		after, _ = cut(runes[to:], min(len(runes)-to, around), -1)
		return before, string(runes[from:to]), after
	}
	after, _ = cut(runes, min(len(runes), 2*around), -1)
	return "", "", after
}

// cut divides a text at a place between two words: at, or the next one in the direction of step, unless the word is too
// long. Each part has a sign where the other one was.
func cut(runes []rune, at, step int) (head, tail string) {
	place := at
	for n := 0; n < longWord && divides(runes, place); n++ {
		place += step
	}
	if divides(runes, place) {
		place = at
	}
	head, tail = string(runes[:place]), string(runes[place:])
	if head != "" {
		tail = "… " + strings.TrimLeft(tail, " ")
	}
	if place < len(runes) {
		head = strings.TrimRight(head, " ") + " …"
	}
	return head, tail
}

// divides reports whether a place is inside a word. Chinese has no blanks: it may be cut anywhere.
func divides(runes []rune, at int) bool {
	inside := func(r rune) bool { return !unicode.IsSpace(r) && !chinese(r) }
	return at > 0 && at < len(runes) && inside(runes[at-1]) && inside(runes[at])
}
