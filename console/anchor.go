package console

import (
	"regexp"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// anchors lets the one kind of raw HTML through that pages need, a place to link to: <a id="letters"></a>. A heading in
// Chinese has another id than the same heading in English.
type anchors struct{}

var anchor = regexp.MustCompile(`^<a id="[a-z0-9-]+">$`)

// RegisterFuncs implements renderer.NodeRenderer.
func (anchors) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		raw, _ := n.(*ast.RawHTML)
		if tag := raw.Segments.Value(source); entering && anchor.Match(tag) {
			_, _ = w.Write(append(tag, "</a>"...))
		}
		return ast.WalkSkipChildren, nil
	})
}
