package target

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/say/text"
)

// DefaultThen is Within where a description does not say it.
const DefaultThen = 30 * time.Second

// thenEvery is the time between two questions of Then, and mostHops how many redirects are followed.
const (
	thenEvery = 100 * time.Millisecond
	mostHops  = 10
)

// StepWords are the placeholders that every step may contain.
var StepWords = []string{"product", "quantity", "key", "buyer", "uuid"}

// Mentions returns the names of the placeholders in texts, sorted, each once.
func Mentions(texts ...string) []string { return mentions(texts...) }

// Via is how a visit sends a call, and the address to which it goes, without a slash at its end.
type Via struct {
	Base string
	Do   func(Call) (Reply, error)
}

// Visit is one buyer of a service whose purchase takes several steps, with his cookies and what he has saved.
type Visit struct {
	// Note is told of every step with its answer, and of what it has saved; nil = it is not.
	Note func(step string, c Call, r Reply, saved map[string]string)

	f      *Foreign
	jar    http.CookieJar
	turned *Reply // the answer that refused him while he was arranged; nil = none did
	failed error  // why he could not be arranged

	mu     sync.Mutex // two may ask for one buyer at once: a repetition does
	values map[string]string
	last   bool // the last step of Buy was sent
}

// NewVisit returns a buyer of so many units. The key may come later, see [Visit.SetKey].
func (f *Foreign) NewVisit(product, quantity int64, key string) *Visit {
	jar, _ := cookiejar.New(nil) // without options there is no error
	id := uuid.NewString()
	return &Visit{f: f, jar: jar, values: map[string]string{"product": f.ProductName(product),
		"quantity": fmt.Sprint(max(quantity, 1)), "key": key, "uuid": id, "buyer": "buyer-" + id[:8]}}
}

// SetKey sets the idempotency key.
func (v *Visit) SetKey(key string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values["key"] = key
}

// AtLast says whether the last step was sent: a repetition sends it alone.
func (v *Visit) AtLast() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last
}

// Arrange prepares the buyer. One who is refused there is so when he buys. An error shows an answer that was not
// expected: the description or the service is wrong. The buyer then buys nothing.
func (v *Visit) Arrange(via Via) error {
	v.failed = v.arrange(via)
	return v.failed
}

func (v *Visit) arrange(via Via) error {
	for i, s := range v.f.Arrange {
		r, err := v.send(via, s, true, fmt.Sprint("arrange ", i+1))
		switch {
		case r.Status != 0 && s.Refused.fits(r):
			v.turned = &r
			return nil
		case r.Status != 0 && r.Status/100 != 2:
			err = text.Of("it answered %s").Errorf(Shown(r))
		}
		if err != nil {
			return text.Of("step %d of arrange, %s: %w").Errorf(i+1, s, err)
		}
	}
	return nil
}

// Refused says whether the buyer was refused while he was arranged.
func (v *Visit) Refused() bool { return v.turned != nil }

// Buy sends the steps of the purchase, of a repetition only the last one, and then asks for the outcome if it was
// promised and ask is set. It returns the answer that decides, and what it means. A buyer who was refused while he was
// arranged sends nothing: nobody knows which units others held then, so it proves nothing.
func (v *Visit) Buy(ctx context.Context, via Via, ask bool) (Reply, Answer, error) {
	r, said, err := v.buy(ctx, via, ask)
	if said.Outcome == judge.OK && said.OrderID != "" {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.values["order"] = said.OrderID
	}
	return r, said, err
}

// About is the visit of the same buyer with another order as {{order}}; "" = with the same.
func (v *Visit) About(order string) *Visit {
	v.mu.Lock()
	defer v.mu.Unlock()
	values := maps.Clone(v.values)
	if order != "" {
		values["order"] = order
	}
	return &Visit{Note: v.Note, f: v.f, jar: v.jar, values: values}
}

// End sends what ends the order that the buyer has bought, [judge.Cancel] or [judge.Ship], and returns the answer, and
// what it means: the code says of a refusal that the order cannot be cancelled, or shipped, any more.
func (v *Visit) End(via Via, kind judge.ReservationKind) (Reply, Answer, error) {
	s := *v.f.Cancel
	if kind == judge.Ship {
		s = *v.f.Ship
	}
	v.mu.Lock()
	_, named := v.values["order"]
	v.mu.Unlock()
	if !named {
		return Reply{}, Answer{}, text.Of("the answer that sold names no order, so there is none to %s: give its place, " +
			"as in sold: {order: /id}").Errorf(kind)
	}
	r, err := v.send(via, s, false, string(kind))
	if err != nil {
		return r, Answer{}, err
	}
	a := unknown(r)
	a.Outcome = classify(r, s.Sold, s.Refused, s.Declined)
	switch a.Outcome {
	case judge.Unknown:
		return r, a, nil
	case judge.Refused:
		a.Code = CodeEnded
	case judge.Declined:
		a.Code = api.LockBusy
	default:
		a.Code = ""
	}
	a.Again = false
	return r, a, nil
}

// CodeEnded is the code of an order that cannot be cancelled, or shipped, any more.
const CodeEnded api.Code = "order_ended"

func (v *Visit) buy(ctx context.Context, via Via, ask bool) (Reply, Answer, error) {
	if v.failed != nil {
		return Reply{Body: []byte(v.failed.Error())}, Answer{Outcome: judge.Declined, Code: api.LockBusy}, nil //nolint:nilerr // it is the answer
	}
	if v.turned != nil {
		a := unknown(*v.turned)
		a.Outcome, a.Again, a.Code = judge.Declined, false, CodeTurned
		return *v.turned, a, nil
	}
	n := len(v.f.Buy) - 1
	for i := range n {
		if v.AtLast() {
			break
		}
		r, err := v.send(via, v.f.Buy[i], false, fmt.Sprint("buy ", i+1))
		if r.Status == 0 {
			return r, Answer{}, err
		}
		s := v.f.Buy[i]
		outcome := classify(r, s.Sold, s.Refused, s.Declined)
		if err != nil || r.Status >= http.StatusBadRequest || outcome != judge.Unknown {
			a := v.f.answer(r, outcome)
			a.Again = false  // the earlier steps were taken
			return r, a, nil //nolint:nilerr // what was not saved is told by the answer
		}
	}
	v.mu.Lock()
	v.last = true
	v.mu.Unlock()
	r, err := v.send(via, v.f.Buy[n], false, fmt.Sprint("buy ", n+1))
	if r.Status == 0 {
		return r, Answer{}, err
	}
	if v.f.Then == nil {
		return r, v.f.Read(r), nil
	}
	a := v.f.answer(r, classify(r, v.f.Buy[n].Sold, v.f.Buy[n].Refused, v.f.Buy[n].Declined))
	if a.Outcome != judge.OK || !ask {
		return r, a, nil
	}
	if err != nil { // what it needs to ask was not saved
		return r, unknown(r), nil //nolint:nilerr // the outcome is not known
	}
	order := a.OrderID
	for end := time.Now().Add(v.f.Then.Within); ; {
		later, err := v.send(via, v.f.Then.Step, true, "then")
		if err == nil && v.f.Then.Until.fits(later) {
			a = v.f.Read(later)
			a.OrderID = cmp.Or(a.OrderID, order)
			return later, a, nil
		}
		if time.Now().After(end) || !rest(ctx, thenEvery) {
			a = unknown(r)
			a.Again = false
			return r, a, nil
		}
	}
}

// CodeTurned is the code of a buyer who was refused before he bought.
const CodeTurned api.Code = "refused_in_arrange"

// send sends one step, follows redirects if it is to, and saves. A reply with an error has a value that is missing.
func (v *Visit) send(via Via, s Step, follow bool, name string) (Reply, error) {
	call, err := v.call(s)
	if err != nil {
		return Reply{}, err
	}
	base, err := url.Parse(via.Base)
	if err != nil {
		return Reply{}, err
	}
	for hop := 0; ; hop++ {
		at, err := url.Parse(via.Base + call.Path)
		if err != nil {
			return Reply{}, err
		}
		sent := call
		sent.Headers = slices.Clone(call.Headers)
		var cookies []string
		for _, c := range v.jar.Cookies(at) {
			cookies = append(cookies, c.Name+"="+c.Value)
		}
		if cookies != nil {
			sent.Headers = append(sent.Headers, [2]string{"Cookie", strings.Join(cookies, "; ")})
		}
		r, err := via.Do(sent)
		if err != nil {
			return Reply{}, err
		}
		v.jar.SetCookies(at, (&http.Response{Header: r.Header}).Cookies())
		if follow && r.Status/100 == 3 && r.Location != "" && !s.Refused.fits(r) {
			to, err := at.Parse(r.Location)
			if err != nil || hop == mostHops {
				return r, text.Of("it leads to %s after %d redirects").Errorf(r.Location, hop)
			}
			v.note(name, sent, r, nil)
			if r.Status != http.StatusTemporaryRedirect && r.Status != http.StatusPermanentRedirect {
				call.Method, call.Body, call.ContentType = http.MethodGet, nil, ""
			}
			call.Path = below(base.String(), to.RequestURI())
			continue
		}
		saved, err := v.save(s.Save, r, at)
		v.note(name, sent, r, saved)
		return r, err
	}
}

func (v *Visit) note(name string, c Call, r Reply, saved map[string]string) {
	if v.Note != nil {
		v.Note(name, c, r, saved)
	}
}

// call fills in the placeholders of a step.
func (v *Visit) call(s Step) (Call, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	path := s.Path
	if at := placeholder.FindStringIndex(path); len(at) > 0 && at[0] == 0 { // a whole path that was saved
		path = expand(path[:at[1]], v.values) + path[at[1]:]
		if u, err := url.Parse(path); err == nil && u.Host != "" {
			path = strings.TrimPrefix(path, u.Scheme+"://"+u.Host)
		}
	}
	c := Call{Method: s.Method, Path: expand(plainPath(path), escaped(v.values, inURL))}
	if !strings.HasPrefix(c.Path, "/") {
		return c, text.Of("%q is no path").Errorf(c.Path)
	}
	if c.ContentType = s.Type; s.Body != "" {
		as := func(said string) string { return said }
		switch {
		case s.Type == formType:
			as = url.QueryEscape
		case strings.Contains(s.Type, "json"):
			as = inJSON
		}
		c.Body = []byte(expand(s.Body, escaped(v.values, as)))
	}
	for _, h := range slices.Concat(headersIn(v.f.Headers), v.session(), headersIn(s.Headers)) {
		if value := h.value(v.values); strings.EqualFold(h.name, "Content-Type") {
			c.ContentType = value
		} else {
			c.Headers = append(c.Headers, [2]string{h.name, value})
		}
	}
	if last := &v.f.Buy[len(v.f.Buy)-1]; v.f.KeyHeader != "" && s.Path == last.Path && s.Body == last.Body {
		c.Headers = append(c.Headers, [2]string{v.f.KeyHeader, v.values["key"]})
	}
	return c, nil
}

// session are the headers of the session whose values are there.
func (v *Visit) session() []header {
	known := slices.DeleteFunc(slices.Clone(v.f.Session), func(h string) bool {
		return slices.ContainsFunc(mentions(h), func(name string) bool { _, there := v.values[name]; return !there })
	})
	return headersIn(known)
}

// save keeps what a step wants to keep of its answer.
func (v *Visit) save(all []Save, r Reply, at *url.URL) (saved map[string]string, err error) {
	if all == nil {
		return nil, nil
	}
	saved = map[string]string{}
	for _, s := range all {
		value, there := s.in(r)
		if s.Cookie != "" && !there {
			for _, c := range v.jar.Cookies(at) {
				if c.Name == s.Cookie {
					value, there = c.Value, true
				}
			}
		}
		if !there {
			return saved, text.Of("{{%s}} is not in its answer: %s").Errorf(s.Name, Shown(r))
		}
		saved[s.Name] = value
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.Copy(v.values, saved)
	return saved, nil
}

// inJSON is a value as it stands between quotes.
func inJSON(said string) string {
	b, _ := json.Marshal(said) // a text always encodes
	return string(b[1 : len(b)-1])
}

func escaped(values map[string]string, as func(string) string) map[string]string {
	all := make(map[string]string, len(values))
	for name, value := range values {
		all[name] = as(value)
	}
	return all
}
