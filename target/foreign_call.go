package target

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

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
	if said := inURL(values["product"]); said != values["product"] {
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
		c.Body, c.ContentType = []byte(body), formType
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

// Caller returns what makes the requests of the description. It fills in the product, the quantity and the key. nil =
// a purchase takes several steps, see [Foreign.NewVisit].
func (f *Foreign) Caller() (func(Ask) Call, error) {
	if f.Buy != nil { // see NewVisit
		return nil, nil
	}
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

// Read classifies a reply, and takes the order's id from it.
func (f *Foreign) Read(r Reply) Answer { return f.answer(r, classify(r, f.OK, f.Refused, f.Declined)) }

// classify finds the outcome. Meanings with an expression are tried first, since a service that answers everything with
// 200 states the outcome only in the body.
func classify(r Reply, sold, refused, declined Meaning) judge.Outcome {
	for _, strict := range []bool{true, false} {
		for _, x := range []struct {
			m       Meaning
			outcome judge.Outcome
		}{{refused, judge.Refused}, {declined, judge.Declined}, {sold, judge.OK}} {
			if (x.m.Body+x.m.Location != "") == strict && x.m.fits(r) {
				return x.outcome
			}
		}
	}
	return judge.Unknown
}

// answer is a reply with this outcome.
func (f *Foreign) answer(r Reply, outcome judge.Outcome) Answer {
	a := unknown(r)
	switch a.Outcome = outcome; outcome {
	case judge.OK:
		a.Again, a.Code, a.OrderID = false, "", f.orderIn(r)
	case judge.Refused:
		a.Again, a.Code = false, api.SoldOut
		a.OrderID = cmp.Or(f.orderIn(r), r.Location[strings.LastIndexByte(r.Location, '/')+1:]) // if it was sold before
	case judge.Declined:
		a.Code = api.LockBusy // the judge counts this code to find a product that is stuck
	default:
	}
	return a
}

func (m Meaning) fits(r Reply) bool {
	if m.Body+m.Location == "" && m.Statuses == nil || m.Statuses == nil && r.Status >= http.StatusInternalServerError {
		return false
	}
	return (m.Statuses == nil || slices.Contains(m.Statuses, r.Status)) &&
		(m.Body == "" || expression(m.Body).Match(r.Body)) &&
		(m.Location == "" || expression(m.Location).MatchString(r.Location))
}

// Promises says whether an answer that means sold says that the outcome is told, or the order written, later. Where a
// redirect is the outcome it does not.
func (f *Foreign) Promises(r Reply) bool { return r.Promises() && f.OK.Location == "" }

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
func (f *Foreign) orderIn(r Reply) string {
	if f.Order != (Save{}) {
		id, _ := f.Order.in(r)
		return id
	}
	places := []string{"/order_id", "/orderId"}
	if f.OrderID != "" {
		places = []string{f.OrderID}
	}
	for _, at := range places {
		if v, err := pick(r.Body, at); err == nil {
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

// mostCommandLines is how many of its last lines are shown of a command that failed.
const mostCommandLines = 20

// Run runs a command of the description, see [Foreign.Launch], in its working directory. An error has its last lines.
func (f *Foreign) Run(ctx context.Context, line string, values map[string]string) error {
	argv, env := f.Launch(line, values)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = f.Dir, append(os.Environ(), env...), time.Second
	out, err := cmd.CombinedOutput()
	if err = errors.Join(err, ctx.Err()); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("%w\n    %s", err, strings.Join(lines[max(0, len(lines)-mostCommandLines):], "\n    "))
	}
	return nil
}

// in is the value in an answer.
func (s Save) in(r Reply) (value string, there bool) {
	switch {
	case s.JSON != "":
		found, err := pick(r.Body, s.JSON)
		return scalar(found), err == nil && string(found) != "null"
	case s.Cookie != "":
		for _, c := range (&http.Response{Header: r.Header}).Cookies() {
			if c.Name == s.Cookie {
				value, there = c.Value, true
			}
		}
		return value, there
	case s.Header != "":
		if value = r.Header.Get(s.Header); s.Regex == "" {
			return value, value != ""
		}
	default:
		value = string(r.Body)
	}
	found := expression(s.Regex).FindStringSubmatch(value)
	if found == nil {
		return "", false
	}
	if value = found[min(1, len(found)-1)]; strings.Contains(r.Header.Get("Content-Type"), "html") {
		value = html.UnescapeString(value)
	}
	return value, true
}

const formType = "application/x-www-form-urlencoded"

// inURL is a value as it stands in a path or a query.
func inURL(said string) string { return strings.ReplaceAll(url.QueryEscape(said), "+", "%20") }
