// The book makes pages of the documentation for the console: Markdown without its raw HTML, links that stay in the
// page, diagrams that were drawn ahead of time, and a search over all of it. Start with [NewBook].

package console

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
)

// Langs are the languages of the pages: locks.md is English, locks.zh.md Chinese.
var Langs = []string{"en", "zh"}

// Book is the pages of a directory. It is safe for concurrent use.
type Book struct {
	files  fs.FS
	names  map[string]bool // of all files
	titles map[string]map[string]string
	order  []string
	index  map[string]func() []section
}

// Entry is a page in a list.
type Entry struct {
	Name  string `json:"name"` // "locks", "modes/lua-lock"
	Title string `json:"title"`
	// Group is the directory: "", "modes", "decisions".
	Group string `json:"group"`
}

// NewBook reads the names and titles of all pages below a directory.
func NewBook(files fs.FS) (*Book, error) {
	b := &Book{files: files, names: map[string]bool{}, titles: map[string]map[string]string{},
		index: map[string]func() []section{}}
	err := fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b.names[file] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	for file := range b.names {
		name, lang, is := pageOf(file)
		if !is {
			continue
		}
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		if b.titles[name] == nil {
			b.titles[name] = map[string]string{}
			b.order = append(b.order, name)
		}
		b.titles[name][lang] = title(string(text), name)
	}
	slices.SortFunc(b.order, func(x, y string) int {
		return cmp.Or(cmp.Compare(group(x), group(y)), cmp.Compare(path.Dir(x), path.Dir(y)), cmp.Compare(rank(x), rank(y)),
			cmp.Compare(x, y))
	})
	for _, lang := range Langs {
		b.index[lang] = sync.OnceValue(func() []section { return b.sections(lang) })
	}
	return b, nil
}

// readFirst are the pages that a newcomer reads first; the others follow by name.
var readFirst = []string{"console", "choose", "modes", "locks", "redisson", "matrix", "lab", "articles", "write-ups",
	"interview", "glossary"}

func rank(name string) int {
	if i := slices.Index(readFirst, name); i >= 0 {
		return i
	}
	return len(readFirst)
}

// group puts the guides before the modes, and both before the rest.
func group(name string) int {
	if i := slices.Index([]string{".", "modes"}, path.Dir(name)); i >= 0 {
		return i
	}
	return 2
}

// pageOf takes the name and the language from a file.
func pageOf(file string) (name, lang string, is bool) {
	name, is = strings.CutSuffix(file, ".md")
	if !is {
		return "", "", false
	}
	if short, zh := strings.CutSuffix(name, ".zh"); zh {
		return short, "zh", true
	}
	return name, "en", true
}

// fileOf is the file of a page: in the language, or in English where there is no other.
func (b *Book) fileOf(name, lang string) string {
	if file := name + ".zh.md"; lang == "zh" && b.names[file] {
		return file
	}
	return name + ".md"
}

// title is the first heading.
func title(text, name string) string {
	for line := range strings.Lines(text) {
		if head, is := strings.CutPrefix(line, "# "); is {
			return strings.ReplaceAll(strings.TrimSpace(head), "`", "")
		}
	}
	return name
}

// titleIn is the title in the language, or the one that there is.
func (b *Book) titleIn(name, lang string) string {
	return cmp.Or(b.titles[name][lang], b.titles[name]["en"])
}

// List names all pages.
func (b *Book) List(lang string) []Entry {
	all := make([]Entry, len(b.order))
	for i, name := range b.order {
		group, _ := path.Split(name)
		all[i] = Entry{Name: name, Title: b.titleIn(name, lang), Group: strings.TrimSuffix(group, "/")}
	}
	return all
}

// Page is a page as HTML.
type Page struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Lang is that of the text.
	Lang string `json:"lang"`
	HTML string `json:"html"`
}

// Page renders a page; false = there is none of this name.
func (b *Book) Page(name, lang string) (Page, bool) {
	if b.titles[name] == nil {
		return Page{}, false
	}
	file := b.fileOf(name, lang)
	text, err := fs.ReadFile(b.files, file)
	if err != nil {
		return Page{}, false
	}
	html, err := b.render(file, text)
	if err != nil {
		return Page{}, false
	}
	_, lang, _ = pageOf(file)
	return Page{Name: name, Title: b.titleIn(name, lang), Lang: lang, HTML: html}, true
}

// Picture is an SVG of the documentation; false = there is none of this name.
func (b *Book) Picture(name string) ([]byte, bool) {
	if path.Ext(name) != ".svg" || !b.names[name] {
		return nil, false
	}
	text, err := fs.ReadFile(b.files, name)
	return text, err == nil
}
