package console

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	manual "lastitem/docs"
	"lastitem/testkit"
)

// small is a book of a few pages.
func small(t *testing.T) *Book {
	t.Helper()
	diagram := "sequenceDiagram\n  A->>B: x"
	b, err := NewBook(fstest.MapFS{
		"locks.md": {Data: []byte("# Which `lock`\n\nSee [the mode](modes/lua-lock.md#what-breaks-it), " +
			"[code](../internal/lock/lock.go), [there](https://example.com/x).\n\n## Fencing tokens\n\nA number that rises.\n" +
			"\n## Fencing tokens\n\nAgain.\n")},
		"locks.zh.md": {Data: []byte("# 哪种锁\n\n[English](locks.md)\n\n## 栅栏令牌\n\n每次加锁都递增的数字，\n写入时校验；SQL\n也一样。\n" +
			"“引号”和\n“引号”：\n`code`，\n[链接](locks.md)和\n`code`。\n")},
		"modes/lua-lock.md": {Data: []byte("# lua-lock\n\n<script>alert(1)</script>\n\n<a id=\"here\"></a><a id=\"x\" " +
			"onclick=\"x\"></a>A <b onclick=\"x\">bold</b> word; [up](../locks.md), ![chart](../bench.svg), " +
			"![away](https://example.com/x.svg), [bad](javascript:alert(1)).\n\n```mermaid\n" + diagram +
			"\n```\n\n```mermaid\nnot drawn <x>\n```\n\n```text\nA < B\n```\n")},
		"bench.svg":          {Data: []byte(`<svg width="956" height="408">`)},
		PictureName(diagram): {Data: []byte(`<svg id="d" viewBox="0 0 9 8" width="969.5" x="1" height="905">`)},
		"secret.txt":         {Data: []byte("no page")},
	})
	testkit.Must(t, err)
	return b
}

func html(t *testing.T, b *Book, name, lang string) string {
	t.Helper()
	p, there := b.Page(name, lang)
	if !there {
		t.Fatalf("no page %s", name)
	}
	return p.HTML
}

// Links between pages stay in the console, links to files become text, and other sites open beside it.
func TestLinks(t *testing.T) {
	t.Parallel()
	b := small(t)
	locks, mode := html(t, b, "locks", "en"), html(t, b, "modes/lua-lock", "zh") // which is in English only
	for want, where := range map[string]string{
		`<a href="#/read/modes/lua-lock~what-breaks-it">the mode</a>`: locks,
		`, code, `: locks,
		`<a href="https://example.com/x" target="_blank" rel="noopener noreferrer">there</a>`: locks,
		`<h2 id="fencing-tokens">`:   locks,
		`<h2 id="fencing-tokens-1">`: locks,
		`<h2 id="栅栏令牌">`:             html(t, b, "locks", "zh"),
		// a break within Chinese is no space
		"数字，写入时校验；SQL\n也一样":                  html(t, b, "locks", "zh"),
		"一样。“引号”和“引号”：<code>code</code>，<a":  html(t, b, "locks", "zh"),
		"</a>和\n<code>code</code>。":          html(t, b, "locks", "zh"),
		`<a href="#/read/locks">English</a>`: html(t, b, "locks", "zh"),
		`<a href="#/read/locks">up</a>`:      mode,
		// the page does not grow when they arrive
		`<img src="api/picture/bench.svg" alt="chart" width="956" height="408">`: mode,
		`, away, bad.`: mode,
		`<img alt="" width="969" height="905" src="api/picture/diagrams/`:                                        mode,
		`<figure class="diagram is-source"><pre tabindex="0"><code class="language-mermaid">not drawn &lt;x&gt;`: mode,
		`<p><a id="here"></a>`:              mode,
		"language-text\">A &lt; B\n</code>": mode,
	} {
		if !strings.Contains(where, want) {
			t.Errorf("want %s in\n%s", want, where)
		}
	}
}

// Nothing of the raw HTML of a page gets through.
func TestRawHTML(t *testing.T) {
	t.Parallel()
	page := strings.ToLower(html(t, small(t), "modes/lua-lock", "en"))
	for _, bad := range []string{"<script", "onclick", "<b ", "javascript:"} {
		if strings.Contains(page, bad) {
			t.Errorf("%s is in the page:\n%s", bad, page)
		}
	}
}

// A section is found by all words, in the language that was asked for, and the title of a page counts most.
func TestSearch(t *testing.T) {
	t.Parallel()
	b := small(t)
	for _, tt := range []struct{ q, lang, page, anchor, match string }{
		{"rises NUMBER", "en", "locks", "fencing-tokens", "rises"},
		{"栅栏令牌 递增", "zh", "locks", "栅栏令牌", "递增"},
		{"lua-lock", "en", "modes/lua-lock", "", ""},
		{"number nowhere", "en", "", "", ""},
		{"递增", "en", "", "", ""},
		{" ", "en", "", "", ""},
		{strings.Repeat("a", 300), "en", "", "", ""},
		{"number", "xx", "", "", ""},
	} {
		hits := b.Search(tt.q, tt.lang)
		switch {
		case tt.page == "" && len(hits) == 0:
		case len(hits) == 0:
			t.Errorf("%q: nothing, want %s", tt.q, tt.page)
		case hits[0].Page != tt.page || hits[0].Anchor != tt.anchor || hits[0].Match != tt.match:
			t.Errorf("%q: %+v, want %s~%s, %q", tt.q, hits[0], tt.page, tt.anchor, tt.match)
		}
	}
}

// A question finds the row of a table that answers it, and the hit shows that row.
func TestSearchRows(t *testing.T) {
	t.Parallel()
	b, err := NewBook(manual.Files())
	testkit.Must(t, err)
	for _, tt := range []struct{ q, lang, row string }{
		{"oversold after failover", "en", "Oversold after a Redis failover"},
		{"超卖 主从切换", "zh", "Redis 主从切换之后超卖"},
		{"retry two orders", "en", "Two orders after a retry"},
	} {
		hits := b.Search(tt.q, tt.lang)
		if len(hits) == 0 || !strings.Contains(hits[0].Before+hits[0].Match+hits[0].After, tt.row) {
			t.Errorf("%q: %+v, want first a row with %q", tt.q, hits[:min(1, len(hits))], tt.row)
		}
	}
}

// An excerpt begins and ends between words, and leaves out the cells of a claims table, links to other pages, and the
// sources of diagrams.
func TestExcerpt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("lock ", 40)
	for _, tt := range []struct{ text, before, after string }{
		{"a hit b", "a ", " b"},
		{long + "hit " + long, "… " + long[:70], " " + strings.TrimSpace(long[:69]) + " …"},
		{strings.Repeat("x", 90) + "hit", "… " + strings.Repeat("x", 70), ""},
		{strings.Repeat("锁", 90) + "hit" + strings.Repeat("锁", 90), "… " + strings.Repeat("锁", 70),
			strings.Repeat("锁", 70) + " …"},
	} {
		before, match, after := excerpt(tt.text, []string{"none", "hit"}, around)
		if before != tt.before || match != "hit" || after != tt.after {
			t.Errorf("%q, %q, %q, want %q, %q", before, match, after, tt.before, tt.after)
		}
	}
	if _, match, after := excerpt(long, []string{"none"}, around); match != "" || after != long[:139]+" …" {
		t.Errorf("%q, %q", match, after)
	}
	b, err := NewBook(fstest.MapFS{"page.md": {Data: []byte("# Page\n\n[All](all.md) · [中文](page.zh.md)\n\n```mermaid\n" +
		"sequenceDiagram\n```\n\n| mode | store | slow | crash |\n| --- | --- | --- | --- |\n| `lua-lock` | redis | . | " +
		"OLA |\n| `queue` | sql | – | L / . |\n")}})
	testkit.Must(t, err)
	hits := b.Search("lua-lock", "en")
	if len(hits) != 1 || hits[0].Before+hits[0].Match+hits[0].After != "mode · store · slow · crash · lua-lock · redis "+
		"· queue · sql" {
		t.Errorf("%+v", hits)
	}
}

// Only pictures are served as pictures, and only pages as pages.
func TestNames(t *testing.T) {
	t.Parallel()
	b := small(t)
	for _, name := range []string{"secret.txt", "locks.md", "../bench.svg", "gone.svg", ""} {
		if _, there := b.Picture(name); there {
			t.Errorf("Picture(%q) is there", name)
		}
	}
	for _, name := range []string{"secret", "bench", "", "../locks", "locks.zh", "modes"} {
		if _, there := b.Page(name, "en"); there {
			t.Errorf("Page(%q) is there", name)
		}
	}
	if _, there := b.Picture("bench.svg"); !there {
		t.Error("no bench.svg")
	}
}

// code matches the code of a page.
var code = regexp.MustCompile(`(?s)<code[^>]*>.*?</code>`)

// Every page of the documentation can be read in both languages, has a title, and leads to no page or heading that is
// not there.
func TestManual(t *testing.T) {
	t.Parallel()
	b, err := NewBook(manual.Files())
	testkit.Must(t, err)
	for _, lang := range Langs {
		pages := b.List(lang)
		if len(pages) < 50 {
			t.Fatalf("%d pages in %s, want some fifty", len(pages), lang)
		}
		for _, p := range pages {
			text := html(t, b, p.Name, lang)
			if p.Title == "" || !strings.Contains(text, "<h1") {
				t.Errorf("%s (%s) has no title", p.Name, lang)
			}
			for line := range strings.Lines(code.ReplaceAllString(text, "")) {
				if strings.Contains(line, "**") {
					t.Errorf("%s (%s): asterisks that are no Markdown: %s", p.Name, lang, line)
				}
			}
			if n, sized := strings.Count(text, "<img "), strings.Count(text, ` height="`); n != sized ||
				strings.Contains(text, ` height=""`) {
				t.Errorf("%s (%s) has %d pictures, %d of them with their size", p.Name, lang, n, sized)
			}
			for _, link := range strings.Split(text, `href="#/read/`)[1:] {
				link, _, _ = strings.Cut(link, `"`)
				link, _ = url.PathUnescape(link)
				name, anchor, has := strings.Cut(link, "~")
				if b.titles[name] == nil {
					t.Errorf("%s (%s) leads to the page %s", p.Name, lang, name)
				} else if to := html(t, b, name, lang); has && !strings.Contains(to, `id="`+anchor+`"`) {
					t.Errorf("%s (%s) leads to %s, which has no heading %s", p.Name, lang, name, anchor)
				}
			}
		}
	}
}
