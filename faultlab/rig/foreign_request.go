package rig

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/say/text"
)

// splitRequest reads METHOD PATH [BODY].
func splitRequest(said string) (method, path, body string, err error) {
	method, rest, _ := strings.Cut(strings.TrimSpace(said), " ")
	path, body, _ = strings.Cut(strings.TrimSpace(rest), " ")
	if method == "" || strings.ToUpper(method) != method || !strings.HasPrefix(path, "/") {
		return "", "", "", text.Of("want METHOD PATH [BODY], as in 'POST /buy?product={{product}}'").Errorf()
	}
	return method, path, strings.TrimSpace(body), nil
}

func (f *Foreign) request(replica string, a Ask) (*http.Request, error) {
	req, err := f.toSend(replica, f.Request, map[string]string{"product": strconv.FormatInt(a.Product, 10), "key": a.Key})
	if err == nil && f.KeyHeader != "" {
		req.Header.Set(f.KeyHeader, a.Key)
	}
	return req, err
}

// toSend makes an HTTP request from METHOD PATH [BODY], its placeholders filled in.
func (f *Foreign) toSend(replica, said string, values map[string]string) (*http.Request, error) {
	method, path, body, err := splitRequest(said)
	if err != nil {
		return nil, err
	}
	var content io.Reader
	body = expand(body, values)
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, replica+expand(path, values), content)
	if err != nil {
		return nil, err
	}
	switch {
	case body == "":
	case json.Valid([]byte(body)):
		req.Header.Set("Content-Type", "application/json")
	default:
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, h := range f.Headers {
		name, value, _ := strings.Cut(h, ":")
		name, value = strings.TrimSpace(name), expand(strings.TrimSpace(value), values)
		req.Header.Set(name, value)
		if strings.EqualFold(name, "Host") { // net/http sends this field and leaves the header out
			req.Host = value
		}
	}
	return req, nil
}

// answer classifies an answer. Meanings with an expression for the body are tried first, since a service that answers
// everything with 200 states the outcome only in the body.
func (f *Foreign) answer(res *http.Response, body []byte) judge.Op {
	op := judge.Op{Outcome: judge.Unknown, Replayed: res.Header.Get(api.HeaderReplayed) == "true"}
	meanings := []struct {
		m       Meaning
		outcome judge.Outcome
	}{{f.Refused, judge.Refused}, {f.Declined, judge.Declined}, {f.OK, judge.OK}}
	for _, strict := range []bool{true, false} {
		for _, x := range meanings {
			if (x.m.Body != "") == strict && x.m.fits(res.StatusCode, body) && op.Outcome == judge.Unknown {
				op.Outcome = x.outcome
			}
		}
	}
	switch op.Outcome {
	case judge.OK:
		op.OrderID = f.orderIn(body)
	case judge.Refused:
		op.Code = api.SoldOut
	case judge.Declined:
		op.Code = api.LockBusy // the judge counts this code to find a product that is stuck
	default:
	}
	return op
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

// hostOf returns scheme and host of an absolute URL; "" = it is a path.
func hostOf(address string) string {
	u, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(address))
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// orderIn returns the order's id in an answer; "" = the answer has none.
func (f *Foreign) orderIn(body []byte) string {
	for _, at := range []string{f.OrderID, "/order_id", "/orderId"} {
		if at == "" {
			continue
		}
		if v, err := pick(body, at); err == nil {
			return scalar(v)
		}
		if f.OrderID != "" {
			break
		}
	}
	return ""
}

func (f *Foreign) argv(l Launch, addr string) []string {
	words, _ := SplitWords(f.Serve)
	values := f.values(l, addr)
	for i, w := range words {
		words[i] = expand(w, values)
	}
	return words
}

func (f *Foreign) env(l Launch, addr string) []string {
	env, values := make([]string, len(f.Env)), f.values(l, addr)
	for i, e := range f.Env {
		env[i] = expand(e, values)
	}
	return env
}

// values returns the values of the placeholders of a command line.
func (f *Foreign) values(l Launch, addr string) map[string]string {
	_, port, _ := net.SplitHostPort(addr)
	v := map[string]string{
		"port": port, "addr": addr, "replica": l.Actor,
		"ttl_ms": strconv.FormatInt(l.TTL.Milliseconds(), 10), "ttl_s": strconv.FormatFloat(l.TTL.Seconds(), 'f', -1, 64),
	}
	if to, err := url.Parse(l.URLs["SHOP_REDIS"]); err == nil && to.Host != "" {
		v["redis"], v["redis_addr"], v["redis_host"], v["redis_port"] = to.String(), to.Host, to.Hostname(), to.Port()
		v["redis_password"], _ = to.User.Password()
	}
	if user, password, addr, database, ok := parseDSN(l.URLs["SHOP_SQL"]); ok {
		host, port, _ := net.SplitHostPort(addr)
		v["mysql_dsn"], v["mysql_addr"], v["mysql_host"], v["mysql_port"] = l.URLs["SHOP_SQL"], addr, host, port
		v["mysql_user"], v["mysql_password"], v["mysql_database"] = user, password, database
		v["mysql"] = "mysql://" + user + ":" + password + "@" + addr + "/" + database
		v["mysql_jdbc"] = "jdbc:mysql://" + addr + "/" + database + "?sslMode=DISABLED&user=" + user + "&password=" + password
	}
	return v
}

// parseDSN splits a DSN that the lab has made: user:password@tcp(addr)/database.
func parseDSN(dsn string) (user, password, addr, database string, ok bool) {
	account, rest, ok := strings.Cut(dsn, "@tcp(")
	user, password, _ = strings.Cut(account, ":")
	addr, database, found := strings.Cut(rest, ")/")
	return user, password, addr, database, ok && found
}

// ready returns nil when the replica answers as Ready demands.
func (f *Foreign) ready(ctx context.Context, addr string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+cmp.Or(f.Ready, "/"), nil)
	if err != nil {
		return err
	}
	res, err := probe.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if f.Ready != "" && res.StatusCode/100 != 2 && res.StatusCode/100 != 3 {
		return fmt.Errorf("GET %s: %s", f.Ready, res.Status)
	}
	return nil
}
