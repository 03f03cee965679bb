package shopfile

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"lastitem/say/text"
	"lastitem/target"
)

// methods are the fields of a step that say its method and its path.
var methods = []string{"get", "post", "put", "patch", "delete"}

// A condition of a step: statuses and expressions, each with its line.
type meaning struct {
	node ast.Node
	target.Meaning
}

// nodes are the fields that have steps; nil = there is none.
type nodes struct{ arrange, buy, session, then, cancel, ship ast.Node }

// purchase reads the steps of a purchase, and those that end its order.
func (r *reader) purchase(n nodes) {
	f := r.file
	if n.arrange != nil {
		for i, n := range r.list(n.arrange) {
			s := r.step(n, fmt.Sprintf("arrange[%d]", i), false)
			f.Arrange = append(f.Arrange, s.Step)
		}
	}
	var all []step
	for i, node := range r.list(n.buy) {
		at := "buy"
		if _, several := n.buy.(*ast.SequenceNode); several {
			at = fmt.Sprintf("buy[%d]", i)
		}
		all = append(all, r.step(node, at, true))
	}
	if len(all) == 0 {
		r.wrong(n.buy, "buy", text.Of("want one step or several"))
		return
	}
	deciding, last := &all[len(all)-1], &all[len(all)-1].Step
	if n.then != nil {
		deciding = r.then(n.then)
		if last.Sold.Statuses == nil && last.Sold.Body+last.Sold.Location == "" {
			last.Sold.Statuses = []int{200, 201, 202}
		}
	}
	if n.session != nil {
		r.fields(n.session, "session", fields{"header": func(n ast.Node, at string) {
			for name, value := range r.pairs(n, at) {
				f.Session = append(f.Session, name+": "+r.mention(value, at+"."+name))
			}
		}})
	}
	r.endings(n)
	if r.err != nil {
		return
	}
	r.decide(deciding)
	f.Plain = len(all) == 1 && f.Arrange == nil && f.Session == nil && f.Then == nil && last.Headers == nil &&
		last.Save == nil && last.Sold.Location+last.Refused.Location+last.Declined.Location == "" &&
		f.Order == (target.Save{}) && !slices.ContainsFunc(target.Mentions(last.Path, last.Body), func(name string) bool {
		return name == "buyer" || name == "uuid"
	}) && (last.Body == "" || asFlag(last.Type))
	request := strings.TrimSpace(last.String() + " " + last.Body)
	r.set(n.buy, "buy", "request", request)
	if f.Plain && f.Cancel == nil {
		return
	}
	for _, s := range all {
		f.Buy = append(f.Buy, s.Step)
	}
	if f.Plain {
		n.buy = nil
	}
	for name, n := range map[string]ast.Node{"arrange": n.arrange, "buy": n.buy, "session": n.session, "then": n.then,
		"cancel": n.cancel, "ship": n.ship} {
		if n != nil {
			f.Flagless = append(f.Flagless, fmt.Sprintf("%s (%s:%d)", name, f.Path, lineOf(n)))
		}
	}
	slices.Sort(f.Flagless)
}

// endings read how an order is cancelled, and shipped.
func (r *reader) endings(n nodes) {
	saved := slices.Contains(r.known, "order")
	r.known = append(r.known, "order")
	if n.cancel != nil {
		if saved {
			r.wrong(n.cancel, "cancel", text.Of("here {{order}} is the order of the answer that sold: save another value "+
				"under another name"))
		}
		r.file.Cancel = r.ending(n.cancel, "cancel")
		for _, name := range []string{"stock", "orders"} {
			if !slices.ContainsFunc(r.file.Settings, func(x Setting) bool { return strings.HasPrefix(x.Field, name) }) {
				r.wrong(n.cancel, "cancel", text.Of("it needs stock and orders, which show whether units came back"))
			}
		}
	}
	if n.ship != nil {
		r.file.Ship = r.ending(n.ship, "ship")
		if n.cancel == nil {
			r.wrong(n.ship, "ship", text.Of("it is sent while an order is cancelled, and there is no cancel"))
		}
	}
}

// ending reads a step that ends an order. If nothing is said, done is 200, 201 or 204, and refused 409.
func (r *reader) ending(n ast.Node, at string) *target.Step {
	s := target.Step{}
	done, refused, declined := meaning{}, meaning{}, meaning{}
	if said, isText := scalar(n); isText {
		s = r.written(n, at, said)
		r.mentioned(n, at, s.Path, s.Body)
	} else {
		into := func(m *meaning) func(ast.Node, string) {
			return func(n ast.Node, at string) { *m = r.meaning(n, at) }
		}
		r.request(n, at, fields{"done": into(&done), "refused": into(&refused), "declined": into(&declined)},
			func(one target.Step) {
				s = one
				r.mentioned(n, at, append([]string{s.Path, s.Body}, s.Headers...)...)
			})
	}
	if s.Sold, s.Refused, s.Declined = done.Meaning, refused.Meaning, declined.Meaning; done.node == nil {
		s.Sold.Statuses = []int{200, 201, 204}
	}
	if refused.node == nil {
		s.Refused.Statuses = []int{409}
	}
	return &s
}

// asFlag says whether a body of this type can be given as a flag: there JSON is told by its looks, and all else is a
// form.
func asFlag(kind string) bool { return kind == jsonType || kind == formType || kind == "" }

// decide takes what the deciding step says of its answers, as flags where there are any.
func (r *reader) decide(s *step) {
	for _, x := range []struct {
		flag  string
		m     meaning
		where *string
	}{{"ok", s.sold, &r.file.Sold}, {"refused", s.refused, &r.file.Refused}, {"declined", s.declined, &r.file.Declined}} {
		if x.m.node == nil {
			continue
		}
		at := "buy." + map[string]string{"ok": "sold"}[x.flag] + strings.TrimPrefix(x.flag, "ok")
		said := "any"
		if x.m.Statuses != nil {
			said = strings.Trim(strings.ReplaceAll(fmt.Sprint(x.m.Statuses), " ", ","), "[]")
		}
		r.set(x.m.node, at, x.flag, said)
		if x.m.Body != "" {
			r.set(x.m.node, at, x.flag+"-body", x.m.Body)
		}
		*x.where = x.m.Location
	}
	switch s.order {
	case target.Save{}:
	case target.Save{JSON: s.order.JSON}:
		r.set(s.orderNode, "buy.order", "order-id", s.order.JSON)
	default:
		r.file.Order = s.order
	}
}

// step is a step with what only the deciding one may say.
type step struct {
	target.Step
	sold, refused, declined meaning
	order                   target.Save
	orderNode               ast.Node
}

// step reads one step; buys says that it belongs to buy, where it may sell.
func (r *reader) step(n ast.Node, at string, buys bool) (s step) {
	if said, isText := scalar(n); isText {
		s.Step = r.written(n, at, said)
		r.mentioned(n, at, s.Path, s.Body)
		return s
	}
	handlers := fields{
		"refused": func(n ast.Node, at string) { s.refused = r.meaning(n, at) },
		"save":    func(n ast.Node, at string) { s.Save = r.save(n, at) },
	}
	if buys {
		handlers["sold"] = func(n ast.Node, at string) {
			s.sold = r.meaning(n, at)
			s.order, s.orderNode = r.orderIn(n, at)
		}
		handlers["declined"] = func(n ast.Node, at string) { s.declined = r.meaning(n, at) }
	}
	r.request(n, at, handlers, func(one target.Step) {
		save := s.Save
		s.Step = one
		s.Save = save
		r.mentioned(n, at, append([]string{s.Path, s.Body}, s.Headers...)...)
	})
	for _, x := range s.Save {
		r.known = append(r.known, x.Name)
	}
	s.Sold, s.Refused, s.Declined = s.sold.Meaning, s.refused.Meaning, s.declined.Meaning
	return s
}

// then reads how to ask for an outcome that was promised.
func (r *reader) then(n ast.Node) *step {
	var until, within ast.Node
	s := step{}
	handlers := fields{
		"until": func(v ast.Node, _ string) { until = v }, "within": func(v ast.Node, _ string) { within = v },
		"sold": func(n ast.Node, at string) {
			s.sold = r.meaning(n, at)
			s.order, s.orderNode = r.orderIn(n, at)
		},
		"refused":  func(n ast.Node, at string) { s.refused = r.meaning(n, at) },
		"declined": func(n ast.Node, at string) { s.declined = r.meaning(n, at) },
	}
	t := target.Then{Within: target.DefaultThen}
	r.request(n, "then", handlers, func(one target.Step) { t.Step = one })
	r.mentioned(n, "then", append([]string{t.Path, t.Body}, t.Headers...)...)
	if until == nil {
		r.wrong(n, "then.until", text.Of("it is missing: what the answer looks like when the outcome is known, as in "+
			"{body: sold|cancelled}"))
		return &s
	}
	if t.Until = r.meaning(until, "then.until").Meaning; within != nil {
		t.Within = r.duration(within, "then.within")
	}
	r.file.Then = &t
	return &s
}

// request reads the fields of a request, and others; done is told of it, if it is one.
func (r *reader) request(n ast.Node, at string, others fields, done func(target.Step)) {
	var s target.Step
	bodies, asked := 0, false
	handlers := fields{
		"headers": func(n ast.Node, at string) {
			for name, value := range r.pairs(n, at) {
				s.Headers = append(s.Headers, name+": "+r.text(value, at+"."+name))
			}
		},
		"json": func(n ast.Node, at string) {
			bodies++
			s.Type = jsonType
			if said, isText := scalar(n); isText {
				s.Body = said
			} else {
				s.Body = r.asJSON(n, at)
			}
		},
		"form": func(n ast.Node, at string) {
			bodies++
			s.Type = formType
			var all []string
			for name, value := range r.pairs(n, at) {
				all = append(all, asForm(name)+"="+asForm(r.text(value, at+"."+name)))
			}
			s.Body = strings.Join(all, "&")
		},
		"body": func(n ast.Node, at string) { bodies++; s.Type, s.Body = "text/plain", r.text(n, at) },
	}
	for _, method := range methods {
		handlers[method] = func(n ast.Node, at string) {
			if asked {
				r.wrong(n, at, text.Of("one step is one request"))
			}
			asked = true
			s.Method, s.Path = strings.ToUpper(method), r.text(n, at)
			if !strings.HasPrefix(s.Path, "/") && !strings.HasPrefix(s.Path, "{{") {
				r.wrong(n, at, text.Of("want a path of the service, as in /buy"))
			}
		}
	}
	other := 0
	for name, read := range others {
		handlers[name] = func(n ast.Node, at string) { other++; read(n, at) }
	}
	r.fields(n, at, handlers)
	switch {
	case bodies > 1:
		r.wrong(n, at, text.Of("want one of json, form and body"))
	case asked:
		done(s)
	case at != "reset" || other == 0 || bodies > 0:
		r.wrong(n, at, text.Of("want a request, as in post: /buy"))
	}
}

// written reads METHOD PATH [BODY].
func (r *reader) written(n ast.Node, at, said string) (s target.Step) {
	method, rest, _ := strings.Cut(strings.TrimSpace(said), " ")
	path, body, _ := strings.Cut(strings.TrimSpace(rest), " ")
	if method == "" || strings.ToUpper(method) != method || !strings.HasPrefix(path, "/") {
		r.wrong(n, at, text.Of("want METHOD PATH [BODY], as in POST /buy?product={{product}}, or a map"))
	}
	s = target.Step{Method: method, Path: path, Body: strings.TrimSpace(body)}
	if s.Type = formType; strings.HasPrefix(s.Body, "{") || strings.HasPrefix(s.Body, "[") {
		s.Type = jsonType
	}
	if s.Body == "" {
		s.Type = ""
	}
	return s
}

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
)

var placeholder = regexp.MustCompile(`\{\{\s*\w+\s*\}\}`)

// asForm writes a text for a form, but for its placeholders.
func asForm(said string) string {
	var b strings.Builder
	from := 0
	for _, at := range append(placeholder.FindAllStringIndex(said, -1), []int{len(said), len(said)}) {
		b.WriteString(url.QueryEscape(said[from:at[0]]) + said[at[0]:at[1]])
		from = at[1]
	}
	return b.String()
}

// mention reads a text with placeholders of steps.
func (r *reader) mention(n ast.Node, at string) string {
	said := r.text(n, at)
	r.mentioned(n, at, said)
	return said
}

// mentioned notes a placeholder that nothing has saved.
func (r *reader) mentioned(n ast.Node, at string, said ...string) {
	for _, name := range target.Mentions(said...) {
		if !slices.Contains(r.known, name) {
			r.wrong(n, at, text.Of("nothing has saved {{%s}}; there are {{%s}}").With(name,
				strings.Join(r.known, "}}, {{")))
		}
	}
}

// meaning reads what an answer looks like: a status, a list of them, an expression for the body, or a map.
func (r *reader) meaning(n ast.Node, at string) (m meaning) {
	m.node = n
	switch n := n.(type) {
	case *ast.IntegerNode, *ast.SequenceNode:
		m.Statuses = r.statuses(n, at)
		return m
	case *ast.StringNode, *ast.LiteralNode:
		m.Body = r.expression(n, at)
		return m
	}
	r.fields(n, at, fields{
		"status":   func(n ast.Node, at string) { m.Statuses = r.statuses(n, at) },
		"body":     func(n ast.Node, at string) { m.Body = r.expression(n, at) },
		"location": func(n ast.Node, at string) { m.Location = r.expression(n, at) },
		"order":    func(ast.Node, string) {}, // see orderIn
	})
	return m
}

// orderIn is the place of the order's id in what is said of an answer that sold.
func (r *reader) orderIn(n ast.Node, at string) (o target.Save, where ast.Node) {
	if _, isText := scalar(n); isText {
		return o, nil
	}
	if _, isList := n.(*ast.SequenceNode); isList {
		return o, nil
	}
	for name, value := range r.pairs(n, at) {
		if name == "order" {
			o, where = r.place(value, at+".order"), value
		}
	}
	return o, where
}

func (r *reader) statuses(n ast.Node, at string) (all []int) {
	for _, n := range r.list(n) {
		said, _ := scalar(n)
		status, err := strconv.Atoi(said)
		if err != nil || status < 100 || status > 599 {
			r.wrong(n, at, text.Of("want HTTP statuses, as in 409 or [200, 201]"))
			return nil
		}
		all = append(all, status)
	}
	return all
}

func (r *reader) expression(n ast.Node, at string) string {
	said := r.text(n, at)
	if _, err := regexp.Compile(said); err != nil {
		r.wrong(n, at, text.Of("want a regular expression: %v").With(err))
	}
	return said
}

// save reads names with the places of their values.
func (r *reader) save(n ast.Node, at string) (all []target.Save) {
	for name, value := range r.pairs(n, at) {
		s := r.place(value, at+"."+name)
		if s.Name = name; slices.Contains(target.StepWords, name) {
			r.wrong(value, at+"."+name, text.Of("every buyer has this value already: take another name"))
		}
		all = append(all, s)
	}
	return all
}

// place reads where a value is in an answer.
func (r *reader) place(n ast.Node, at string) (s target.Save) {
	if said, isText := scalar(n); isText {
		if s.JSON = said; !strings.HasPrefix(said, "/") {
			r.wrong(n, at, text.Of("want a JSON pointer as in /data/id, or {header: Name}, {cookie: name}, {regex: "+
				"'id=(\\d+)'}"))
		}
		return s
	}
	r.fields(n, at, fields{
		"json":   func(n ast.Node, at string) { s.JSON = r.text(n, at) },
		"header": func(n ast.Node, at string) { s.Header = r.text(n, at) },
		"cookie": func(n ast.Node, at string) { s.Cookie = r.text(n, at) },
		"regex":  func(n ast.Node, at string) { s.Regex = r.expression(n, at) },
	})
	if s.JSON+s.Header+s.Cookie+s.Regex == "" {
		r.wrong(n, at, text.Of("want one of json, header, cookie and regex"))
	}
	return s
}
