package target

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/say/text"
)

// template is METHOD PATH [BODY] with headers, whose placeholders are to be filled in.
type template struct {
	method     string
	path, body func(map[string]string) string
	headers    []header
}

type header struct {
	name  string
	value func(map[string]string) string
}

// parse reads METHOD PATH [BODY], and takes the headers of the description.
func (f *Foreign) parse(said string) (template, error) {
	// A path holds no blank, so the first two end the method and the path; the body may hold any.
	method, rest, _ := strings.Cut(strings.TrimSpace(said), " ")
	path, body, _ := strings.Cut(strings.TrimSpace(rest), " ")
	if method == "" || strings.ToUpper(method) != method || !strings.HasPrefix(path, "/") {
		return template{}, text.Of("want METHOD PATH [BODY], as in 'POST /buy?product={{product}}'").Errorf()
	}
	path = plainPath(path)
	if _, err := url.ParseRequestURI(placeholder.ReplaceAllString(path, "1")); err != nil {
		return template{}, err
	}
	t := template{method: method, path: filler(path), body: filler(strings.TrimSpace(body))}
	t.headers = headersIn(f.Headers)
	return t, nil
}

// plainPath writes what may not stand in a path or a query as %XX, but for placeholders, and leaves a fragment out:
// each client would do that in its own way.
func plainPath(path string) string {
	path, _, _ = strings.Cut(path, "#")
	var b strings.Builder
	from := 0
	for _, at := range append(placeholder.FindAllStringIndex(path, -1), []int{len(path), len(path)}) {
		for _, c := range []byte(path[from:at[0]]) {
			if c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
				fmt.Fprintf(&b, "%%%02X", c)
			} else {
				b.WriteByte(c)
			}
		}
		b.WriteString(path[at[0]:at[1]])
		from = at[1]
	}
	return b.String()
}

// inPath are the values as they stand in a path or a query.
func inPath(values map[string]string) map[string]string {
	if said := strings.ReplaceAll(url.QueryEscape(values["product"]), "+", "%20"); said != values["product"] {
		values = maps.Clone(values)
		values["product"] = said
	}
	return values
}

func headersIn(all []string) (headers []header) {
	for _, h := range all {
		name, value, _ := strings.Cut(h, ":")
		headers = append(headers, header{strings.TrimSpace(name), filler(strings.TrimSpace(value))})
	}
	return headers
}

// call fills in the placeholders. A body that is valid JSON has that type, any other is a form; a header may say
// otherwise.
func (t template) call(values map[string]string) Call {
	c := Call{Method: t.method, Path: t.path(inPath(values))}
	if body := t.body(values); body != "" {
		c.Body, c.ContentType = []byte(body), "application/x-www-form-urlencoded"
		if json.Valid(c.Body) {
			c.ContentType = jsonType
		}
	}
	for _, h := range t.headers {
		if value := h.value(values); strings.EqualFold(h.name, "Content-Type") {
			c.ContentType = value
		} else {
			c.Headers = append(c.Headers, [2]string{h.name, value})
		}
	}
	return c
}

// Caller returns what makes the requests of the description. It fills in the product, the quantity and the key.
func (f *Foreign) Caller() (func(Ask) Call, error) {
	t, err := f.parse(f.Request)
	if err != nil {
		return nil, text.Of("--request %q: %w").Errorf(f.Request, err)
	}
	return func(a Ask) Call {
		c := t.call(map[string]string{"product": f.ProductName(a.Product), "quantity": fmt.Sprint(max(a.Quantity, 1)),
			"key": a.Key})
		if f.KeyHeader != "" {
			c.Headers = append(c.Headers, [2]string{f.KeyHeader, a.Key})
		}
		return c
	}, nil
}

// Read classifies a reply, and takes the order's id from it. Meanings with an expression for the body are tried first,
// since a service that answers everything with 200 states the outcome only in the body.
func (f *Foreign) Read(r Reply) Answer {
	a := unknown(r)
	meanings := []struct {
		m       Meaning
		outcome judge.Outcome
	}{{f.Refused, judge.Refused}, {f.Declined, judge.Declined}, {f.OK, judge.OK}}
	for _, strict := range []bool{true, false} {
		for _, x := range meanings {
			if (x.m.Body != "") == strict && a.Outcome == judge.Unknown && x.m.fits(r.Status, r.Body) {
				a.Outcome = x.outcome
			}
		}
	}
	switch a.Outcome {
	case judge.OK:
		a.Again, a.Code, a.OrderID = false, "", f.orderIn(r.Body)
	case judge.Refused:
		a.Again, a.Code = false, api.SoldOut
		a.OrderID = cmp.Or(f.orderIn(r.Body), r.Location[strings.LastIndexByte(r.Location, '/')+1:]) // if it was sold before
	case judge.Declined:
		a.Code = api.LockBusy // the judge counts this code to find a product that is stuck
	default:
	}
	return a
}

func (m Meaning) fits(status int, body []byte) bool {
	return slices.Contains(m.Statuses, status) && (m.Body == "" || expression(m.Body).Match(body))
}

// expressions keeps the compiled ones: a load test reads thousands of answers a second.
var expressions sync.Map

func expression(said string) *regexp.Regexp {
	if known, ok := expressions.Load(said); ok {
		return known.(*regexp.Regexp)
	}
	compiled := regexp.MustCompile(said) // Check has compiled it once
	expressions.Store(said, compiled)
	return compiled
}

// orderIn returns the order's id in an answer; "" = the answer has none.
func (f *Foreign) orderIn(body []byte) string {
	places := []string{"/order_id", "/orderId"}
	if f.OrderID != "" {
		places = []string{f.OrderID}
	}
	for _, at := range places {
		if v, err := pick(body, at); err == nil {
			return scalar(v)
		}
	}
	return ""
}

// Launch returns a command line, Serve or of SetupCmd, and the variables of its environment, by the values of the
// placeholders.
func (f *Foreign) Launch(line string, values map[string]string) (argv, env []string) {
	argv, _ = splitWords(line) // Check has split it once
	for i, w := range argv {
		argv[i] = expand(w, values)
	}
	for _, e := range f.Env {
		env = append(env, expand(e, values))
	}
	return argv, env
}
