package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Where the console shows pages and serves pictures, as the page addresses them.
const (
	pagesAt    = "#/read/"
	picturesAt = "api/picture/"
	// anchorSign stands between a page and a heading in the fragment of the address.
	anchorSign = "~"
)

// parse reads Markdown; the ids of headings are those of GitHub.
func parse(source []byte) (goldmark.Markdown, ast.Node) {
	// the page's policy allows no style in the text, so cells are aligned by an attribute
	table := extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))
	md := goldmark.New(goldmark.WithExtensions(table, extension.Strikethrough),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(diagrams{}, 100),
			util.Prioritized(anchors{}, 100))))
	doc := md.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(ids{}))))
	joinLines(source, doc)
	return md, doc
}

// joinLines removes the line breaks between two Chinese characters, and after Chinese punctuation. A browser would show
// them as spaces.
func joinLines(source []byte, doc ast.Node) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		line, ok := n.(*ast.Text)
		if !ok || !entering || !line.SoftLineBreak() {
			return ast.WalkContinue, nil
		}
		last, _ := utf8.DecodeLastRune(line.Segment.Value(source))
		joined := chinese(last) && !unicode.Is(unicode.Han, last)
		if next, ok := line.NextSibling().(*ast.Text); ok && chinese(last) {
			first, _ := utf8.DecodeRune(next.Segment.Value(source))
			joined = joined || chinese(first) || first == '“'
		}
		line.SetSoftLineBreak(!joined)
		return ast.WalkContinue, nil
	})
}

// chinese reports whether r is a Chinese character or a full-width punctuation mark.
func chinese(r rune) bool {
	return unicode.Is(unicode.Han, r) || r >= 0x3000 && r <= 0x303f || r >= 0xff00 && r <= 0xffef
}

// render makes HTML of a page. Raw HTML in it is left out, except [anchors].
func (b *Book) render(file string, source []byte) (string, error) {
	md, doc := parse(source)
	b.relink(file, source, doc)
	var out bytes.Buffer
	err := md.Renderer().Render(&out, source, doc)
	return out.String(), err
}

// relink makes links between pages stay in the console. A link to a file that is not in the book becomes its text,
// since there is nothing that it could lead to; so does a picture from elsewhere.
func (b *Book) relink(file string, source []byte, doc ast.Node) {
	var links []ast.Node
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch x := n.(type) {
		case *ast.Link, *ast.Image:
			if entering {
				links = append(links, n)
			}
		case *ast.FencedCodeBlock:
			if entering && string(x.Language(source)) == "mermaid" {
				width, height, there := b.size(pictureOf(source, x))
				x.SetAttributeString(drawn, there)
				x.SetAttributeString("width", width)
				x.SetAttributeString("height", height)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, n := range links {
		switch x := n.(type) {
		case *ast.Link:
			to, outside := b.target(file, string(x.Destination))
			x.Destination = []byte(to)
			switch {
			case to == "":
				unwrap(x)
			case outside:
				x.SetAttributeString("target", []byte("_blank"))
				x.SetAttributeString("rel", []byte("noopener noreferrer"))
			}
		case *ast.Image:
			picture := path.Join(path.Dir(file), string(x.Destination))
			x.Destination = []byte(picturesAt + picture)
			width, height, there := b.size(picture)
			if !there {
				unwrap(x)
			}
			x.SetAttributeString("width", []byte(width))
			x.SetAttributeString("height", []byte(height))
		}
	}
}

// svgSize matches the beginning of an SVG, with its size in pixels.
var svgSize = regexp.MustCompile(`^<svg[^>]* width="(\d+)(?:\.\d+)?"[^>]* height="(\d+)(?:\.\d+)?"`)

// size is the size of a picture. With it a page does not grow when the picture arrives, and a link to a heading below
// leads to the heading.
func (b *Book) size(picture string) (width, height string, there bool) {
	text, there := b.Picture(picture)
	if m := svgSize.FindSubmatch(text); m != nil {
		return string(m[1]), string(m[2]), there
	}
	return "", "", there
}

// target is where a link of a page leads; "" = nowhere in the book.
func (b *Book) target(file, link string) (to string, outside bool) {
	if strings.HasPrefix(link, "https://") || strings.HasPrefix(link, "http://") {
		return link, true
	}
	link, anchor, _ := strings.Cut(link, "#")
	at := path.Join(path.Dir(file), link)
	if link == "" {
		at = file
	}
	name, _, is := pageOf(at)
	if !is || b.titles[name] == nil {
		return "", false
	}
	if anchor != "" {
		anchor = anchorSign + anchor
	}
	return pagesAt + name + anchor, false
}

// unwrap puts the children of a node in its place.
func unwrap(n ast.Node) {
	parent := n.Parent()
	for child := n.FirstChild(); child != nil; {
		next := child.NextSibling()
		parent.InsertBefore(parent, n, child)
		child = next
	}
	parent.RemoveChild(parent, n)
}

// ids makes the id of a heading as GitHub does: letters, digits, - and _ stay, in lower case, and spaces become -.
type ids map[string]bool

// Generate implements parser.IDs.
func (i ids) Generate(value []byte, _ ast.NodeKind) []byte {
	id := Slug(string(value))
	for n := 1; i[id]; n++ {
		id = Slug(string(value)) + "-" + strconv.Itoa(n)
	}
	i[id] = true
	return []byte(id)
}

// Put implements parser.IDs.
func (i ids) Put(value []byte) { i[string(value)] = true }

// Slug is the id of a heading.
func Slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, strings.TrimSpace(heading))
}

// drawn is the attribute of a block that has its picture.
const drawn = "drawn"

// PictureName is the file of a diagram's picture: its name is the hash of the source, so that another source has none.
func PictureName(source string) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(source)))
	return "diagrams/" + hex.EncodeToString(sum[:8]) + ".svg"
}

func pictureOf(source []byte, block *ast.FencedCodeBlock) string {
	return PictureName(string(block.Lines().Value(source)))
}

// Diagrams are the sources of the Mermaid diagrams of a page.
func Diagrams(source []byte) (all []string) {
	_, doc := parse(source)
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if x, is := n.(*ast.FencedCodeBlock); is && entering && string(x.Language(source)) == "mermaid" {
			all = append(all, strings.TrimSpace(string(x.Lines().Value(source))))
		}
		return ast.WalkContinue, nil
	})
	return all
}

// diagrams renders fenced blocks: a Mermaid diagram as its picture with the source below, or as the source where there
// is no picture.
type diagrams struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (diagrams) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus,
		error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		block, _ := n.(*ast.FencedCodeBlock)
		lines := block.Lines().Value(source)
		code := fmt.Sprintf("<pre tabindex=\"0\"><code class=\"language-%s\">%s</code></pre>\n",
			util.EscapeHTML(block.Language(source)), util.EscapeHTML(lines))
		has, isDiagram := block.AttributeString(drawn)
		switch {
		case !isDiagram:
			_, _ = w.WriteString(code)
		case has == true:
			width, _ := block.AttributeString("width")
			height, _ := block.AttributeString("height")
			_, _ = fmt.Fprintf(w, "<figure class=\"diagram\"><img alt=\"\" width=\"%s\" height=\"%s\" "+
				"src=\"%s\"><details>%s</details></figure>\n",
				width, height, picturesAt+PictureName(string(lines)), code)
		default:
			_, _ = w.WriteString("<figure class=\"diagram is-source\">" + code + "</figure>\n")
		}
		return ast.WalkContinue, nil
	})
}
