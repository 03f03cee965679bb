package shopfile

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"lastitem/say/text"
	"lastitem/target"
)

// Read reads a description. An error names the line, the field, and what is expected there.
func Read(path string) (*File, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.ParseBytes(source, 0)
	if syntax := yaml.Error(nil); errors.As(err, &syntax) {
		line, said := syntax.GetToken().Position.Line, text.Plain(syntax.GetMessage())
		if all := strings.Split(string(source), "\n"); strings.Contains(all[min(line, len(all))-1], "{{") {
			said = text.Of("%s: inside {...} and [...] a text with {{...}} needs quotes").With(said)
		}
		return nil, text.Of("%s:%d: %s").Errorf(path, line, said)
	} else if err != nil {
		return nil, text.Of("%s: %w").Errorf(path, err)
	}
	r := &reader{file: &File{Path: path}, known: slices.Clone(target.StepWords)}
	if len(parsed.Docs) != 1 || parsed.Docs[0].Body == nil {
		return nil, text.Of("%s:1: want the description of one service, as in docs/shop-yaml.md").Errorf(path)
	}
	r.top(parsed.Docs[0].Body)
	return r.file, r.err
}

// top reads the document.
func (r *reader) top(doc ast.Node) {
	var all nodes
	into := func(n *ast.Node) func(ast.Node, string) {
		return func(v ast.Node, _ string) { *n = v }
	}
	r.fields(doc, "", fields{
		"service": r.flag("name"), "url": r.flag("url"), "redis": r.flag("redis"), "sql": r.flag("sql"),
		"insecure": r.yes("insecure"), "timeout": r.time("timeout"), "settle": r.time("settle"),
		"lock_ttl": r.time("lock-ttl"), "reset_within": r.time("reset-within"),
		"repeat_without_key": r.yes("repeat-without-key"), "keep_redis": r.yes("keep-redis"),
		"allow_untested": func(n ast.Node, at string) { r.set(n, at, "allow-untested", strings.Join(r.texts(n, at), ",")) },
		"products":       func(n ast.Node, at string) { r.file.Products = r.texts(n, at) },
		"headers":        r.headers("header"), "read_headers": r.headers("read-header"), "key_header": r.flag("key-header"),
		"start": r.start, "stock": r.source("stock"), "orders": r.source("orders"), "reset": r.reset,
		"arrange": into(&all.arrange), "buy": into(&all.buy), "session": into(&all.session), "then": into(&all.then),
		"cancel": into(&all.cancel), "ship": into(&all.ship),
	})
	if all.buy == nil {
		r.wrong(doc, "buy", text.Of("it is missing: what a buyer sends, as in POST /buy?product={{product}}"))
		return
	}
	r.purchase(all)
}

func (r *reader) start(n ast.Node, at string) {
	r.fields(n, at, fields{
		"command": r.flag("serve"),
		"env": func(n ast.Node, at string) {
			for name, value := range r.pairs(n, at) {
				r.set(value, at+"."+name, "env", name+"="+r.text(value, at+"."+name))
			}
		},
		"setup": func(n ast.Node, at string) {
			sql := false
			for _, n := range r.list(n) {
				sql = r.doing(n, at, "setup", []string{"command", "sql"}, sql)
			}
		},
		"ready": func(n ast.Node, at string) {
			if _, isText := scalar(n); isText {
				r.set(n, at, "ready", r.text(n, at))
				return
			}
			r.fields(n, at, fields{"get": r.flag("ready"), "within": r.time("ready-within")})
		},
	})
}

// doing reads what is done to prepare or to reset: a command, SQL and so on, a map of one field. after says that one
// before it was of the second kind or a later one.
func (r *reader) doing(n ast.Node, at, flag string, kinds []string, after bool) bool {
	if _, isText := scalar(n); isText && flag == "setup" {
		r.set(n, at, "setup-cmd", r.text(n, at))
		if after {
			r.wrong(n, at, text.Of("commands run before SQL: write them first"))
		}
		return after
	}
	handlers := fields{}
	for i, kind := range kinds {
		name := map[string]string{"command": flag + "-cmd"}[kind]
		if name == "" {
			name = flag + "-" + kind
		}
		handlers[kind] = func(n ast.Node, at string) {
			if after && i == 0 {
				r.wrong(n, at, text.Of("commands run before SQL: write them first"))
			}
			after = after || i > 0
			r.set(n, at, name, r.text(n, at))
		}
	}
	r.fields(n, at, handlers)
	return after
}

// resets are the kinds of resets, in the order in which they run.
var resets = []string{"sql", "redis", "url", "command"}

func (r *reader) reset(n ast.Node, at string) {
	last := 0
	for _, n := range r.list(n) {
		kind, flags := 2, map[string]string{"sql": "reset-sql", "redis": "reset-redis", "command": "reset-cmd"}
		if said, isText := scalar(n); isText {
			r.set(n, at, "reset-url", said)
		} else {
			handlers := fields{}
			for name, flag := range flags {
				handlers[name] = func(n ast.Node, at string) {
					kind = slices.Index(resets, name)
					r.set(n, at, flag, r.text(n, at))
				}
			}
			r.request(n, at, handlers, func(s target.Step) {
				if s.Headers != nil {
					r.wrong(n, at+".headers", text.Of("a reset has none: read_headers go with all of them"))
				}
				r.set(n, at, "reset-url", strings.TrimSpace(s.String()+" "+s.Body))
			})
		}
		if kind < last {
			r.wrong(n, at, text.Of("resets run in this order: sql, redis, requests, commands; write them so"))
		}
		last = kind
	}
}

// source reads where stock or orders are.
func (r *reader) source(what string) func(ast.Node, string) {
	return func(n ast.Node, at string) {
		var url ast.Node
		var pointers string
		given := 0
		one := func(flag string) func(ast.Node, string) {
			return func(n ast.Node, at string) { given++; r.set(n, at, what+"-"+flag, r.text(n, at)) }
		}
		handlers := fields{"sql": one("sql"), "redis": one("redis"),
			"url": func(n ast.Node, _ string) { given++; url = n }}
		if what == "stock" {
			for name, sign := range map[string]string{"add": "+", "subtract": "-"} {
				handlers[name] = func(n ast.Node, at string) {
					for _, p := range r.texts(n, at) {
						if !strings.HasPrefix(p, "/") {
							r.wrong(n, at, text.Of("want JSON pointers, as in [/onHand]"))
						}
						if sign == "-" {
							pointers += sign + p
						} else {
							pointers = sign + p + pointers
						}
					}
				}
			}
		}
		r.fields(n, at, handlers)
		if given != 1 {
			r.wrong(n, at, text.Of("want one of sql, redis and url"))
			return
		}
		if pointers != "" && (url == nil || pointers[0] == '-' || strings.Contains(r.text(url, at), "#")) {
			r.wrong(n, at, text.Of("add and subtract belong to a url without '#', and add comes first"))
		}
		if url != nil {
			path := r.text(url, at+".url")
			if pointers != "" {
				path += "#" + pointers[1:]
			}
			r.set(url, at+".url", what+"-url", path)
		}
	}
}

// flag reads a text that is a flag.
func (r *reader) flag(name string) func(ast.Node, string) {
	return func(n ast.Node, at string) { r.set(n, at, name, r.text(n, at)) }
}

// yes reads true or false, of which only true is a flag.
func (r *reader) yes(name string) func(ast.Node, string) {
	return func(n ast.Node, at string) {
		b, is := n.(*ast.BoolNode)
		if !is {
			r.wrong(n, at, text.Of("want true or false"))
		} else if b.Value {
			r.set(n, at, name, "true")
		}
	}
}

// time reads a duration.
func (r *reader) time(name string) func(ast.Node, string) {
	return func(n ast.Node, at string) { r.set(n, at, name, r.duration(n, at).String()) }
}

// headers reads names with their values, each a flag.
func (r *reader) headers(flag string) func(ast.Node, string) {
	return func(n ast.Node, at string) {
		for name, value := range r.pairs(n, at) {
			r.set(value, at+"."+name, flag, name+": "+r.text(value, at+"."+name))
		}
	}
}
