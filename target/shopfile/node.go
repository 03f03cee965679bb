package shopfile

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"lastitem/say/text"
)

// reader reads the nodes of a file until the first mistake.
type reader struct {
	file  *File
	err   error
	known []string // placeholders that a step may mention: those of all, and what was saved before it
}

// fields are the fields of a map, each with what reads its value.
type fields map[string]func(value ast.Node, at string)

// wrong notes a mistake, unless there was one before: the file, the line, the field, and what is expected.
func (r *reader) wrong(n ast.Node, at string, want text.Text) {
	if r.err == nil {
		r.err = text.Of("%s:%d: %s: %s").Errorf(r.file.Path, lineOf(n), at, want)
	}
}

func lineOf(n ast.Node) int {
	if pair, is := n.(*ast.MappingValueNode); is {
		n = pair.Key
	}
	if all, is := n.(*ast.MappingNode); is && len(all.Values) > 0 {
		n = all.Values[0].Key
	}
	return n.GetToken().Position.Line
}

// pairs are the names and values of a map.
func (r *reader) pairs(n ast.Node, at string) iter.Seq2[string, ast.Node] {
	var all []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		all = n.Values
	case *ast.MappingValueNode:
		all = []*ast.MappingValueNode{n}
	default:
		r.wrong(n, at, text.Of("want a map, names with values"))
	}
	return func(yield func(string, ast.Node) bool) {
		for _, pair := range all {
			name, _ := scalar(pair.Key)
			if !yield(name, pair.Value) {
				return
			}
		}
	}
}

// fields reads a map that may have these fields.
func (r *reader) fields(n ast.Node, at string, known fields) {
	for name, value := range r.pairs(n, cmpName(at)) {
		path := strings.TrimPrefix(at+"."+name, ".")
		read, is := known[name]
		if !is {
			all := slices.Sorted(maps.Keys(known))
			said := text.Of("there is no such field; there are %s").With(strings.Join(all, ", "))
			if near := text.Nearest(name, all); near != "" {
				said = text.Of("there is no such field; did you mean %s?").With(near)
			}
			r.wrong(value, path, said)
			return
		}
		if read(value, path); r.err != nil {
			return
		}
	}
}

// cmpName is a field's name in an error, of the whole document "shop.yaml".
func cmpName(at string) string {
	if at == "" {
		return "shop.yaml"
	}
	return at
}

// scalar is a text, a number or a truth value as it is written.
func scalar(n ast.Node) (said string, is bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func (r *reader) text(n ast.Node, at string) string {
	said, is := scalar(n)
	if !is || said == "" {
		r.wrong(n, at, text.Of("want a text"))
	}
	return said
}

// list is a list, or the one value in its place.
func (r *reader) list(n ast.Node) []ast.Node {
	if all, is := n.(*ast.SequenceNode); is {
		return all.Values
	}
	return []ast.Node{n}
}

func (r *reader) texts(n ast.Node, at string) (all []string) {
	for _, n := range r.list(n) {
		all = append(all, r.text(n, at))
	}
	return all
}

// asJSON is a value as JSON. A text within it stays one, whatever it looks like.
func (r *reader) asJSON(n ast.Node, at string) string {
	var all []string
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		for name, value := range r.pairs(n, at) {
			all = append(all, quoted(name)+":"+r.asJSON(value, at))
		}
		return "{" + strings.Join(all, ",") + "}"
	case *ast.SequenceNode:
		for _, value := range n.Values {
			all = append(all, r.asJSON(value, at))
		}
		return "[" + strings.Join(all, ",") + "]"
	case *ast.NullNode:
		return "null"
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value
	}
	return quoted(r.text(n, at))
}

func quoted(said string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(said) // a text always encodes
	return strings.TrimSpace(b.String())
}

// duration reads a time that is not over.
func (r *reader) duration(n ast.Node, at string) time.Duration {
	said, _ := scalar(n)
	d, err := time.ParseDuration(said)
	if err != nil || d <= 0 {
		r.wrong(n, at, text.Of("want a time, as in 500ms, 30s or 5m"))
	}
	return d
}

// set notes a field as a flag.
func (r *reader) set(n ast.Node, at, flag, value string) {
	r.file.Settings = append(r.file.Settings, Setting{Flag: flag, Value: value, Field: at, Line: lineOf(n)})
}
