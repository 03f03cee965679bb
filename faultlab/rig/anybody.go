package rig

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/localstack"
)

// Foreign is anybody's service, in any language: how it is started, asked, reset and read. Texts may have placeholders, {{port}} and the
// like; [Foreign.Check] says which. It is stored with a story, so that a replay needs nothing else.
type Foreign struct {
	// Serve is the command line of a replica, Env what is added to its environment: NAME=VALUE.
	Serve string   `json:"serve"`
	Env   []string `json:"env,omitempty"`
	// Ready is a path that answers 2xx or 3xx when the replica can serve; "" takes any answer of HTTP.
	Ready string `json:"ready,omitempty"`
	// Request is what a client sends: METHOD PATH [BODY]. Headers go with everything that is sent to the service: "Name: value".
	Request string   `json:"request"`
	Headers []string `json:"headers,omitempty"`
	// KeyHeader carries the idempotency key; "" = there is none, except where Request says {{key}}.
	KeyHeader string `json:"key_header,omitempty"`
	// What an answer means. Whatever is none of these is unknown: it may have happened.
	OK       Meaning `json:"ok"`
	Refused  Meaning `json:"refused"`
	Declined Meaning `json:"declined"`
	// OrderID is the JSON pointer of the order's id in an answer; "" looks for order_id and orderId.
	OrderID string `json:"order_id,omitempty"`
	// SetupSQL is run once, in the schema of a lane. The others are run before every schedule, after Redis was emptied (unless KeepRedis): SQL
	// first, Redis after it, and requests to the service last.
	SetupSQL   []string `json:"setup_sql,omitempty"`
	ResetSQL   []string `json:"reset_sql,omitempty"`
	ResetRedis []string `json:"reset_redis,omitempty"`
	ResetURL   []string `json:"reset_url,omitempty"`
	KeepRedis  bool     `json:"keep_redis,omitempty"`
	// Stock and Orders say where to read what the ledger holds.
	Stock  Source `json:"stock"`
	Orders Source `json:"orders"`
	// LockTTL is how long its locks live without renewal; 0 = what the lab sees in Redis while a request is held.
	LockTTL time.Duration `json:"lock_ttl_ns,omitempty"`

	// Dir is the working directory of the replicas.
	Dir string `json:"-"`
}

// Meaning is how an answer is recognised: by one of these statuses and, where there is one, an expression that the body matches.
type Meaning struct {
	Statuses []int  `json:"statuses"`
	Body     string `json:"body,omitempty"`
}

// Source is where a number or rows are read: one of three. URL is a path of the service with a JSON pointer after "#"; Redis a command.
type Source struct {
	SQL   string `json:"sql,omitempty"`
	Redis string `json:"redis,omitempty"`
	URL   string `json:"url,omitempty"`
}

// ServiceName is the mode of a foreign service: it has one way of deducting stock, the one to be tried.
const ServiceName = "service"

// theirStore is where the count lives in the ledger of a foreign service.
const theirStore api.Store = "service"

// The placeholders: of a command line and its environment, and of requests and statements.
var (
	launchWords = []string{
		"port", "addr", "replica", "redis", "redis_host", "redis_port", "redis_addr", "redis_password",
		"mysql", "mysql_dsn", "mysql_jdbc", "mysql_host", "mysql_port", "mysql_addr", "mysql_user", "mysql_password", "mysql_database", "ttl_ms", "ttl_s",
	}
	askWords   = []string{"product", "key"}
	resetWords = []string{"product", "stock"}
)

// UsesRedis and UsesSQL say which servers the command line asks for.
func (f *Foreign) UsesRedis() bool { return f.uses("redis") }

// UsesSQL says whether the command line asks for a database.
func (f *Foreign) UsesSQL() bool { return f.uses("mysql") }

func (f *Foreign) uses(server string) bool {
	return slices.ContainsFunc(f.launched(), func(name string) bool { return strings.HasPrefix(name, server) })
}

// launched lists the placeholders of the command line and the environment.
func (f *Foreign) launched() []string { return mentions(append(slices.Clone(f.Env), f.Serve)...) }

// TakesTTL says that the lab chooses how long the locks live.
func (f *Foreign) TakesTTL() bool {
	return slices.ContainsFunc(f.launched(), func(name string) bool { return strings.HasPrefix(name, "ttl_") })
}

// takesPassword says that the command line has a place for the password of Redis; without one it has none.
func (f *Foreign) takesPassword() bool {
	return slices.ContainsFunc(f.launched(), func(name string) bool { return name == "redis" || name == "redis_password" })
}

// HasKey says whether a request carries an idempotency key, so that it can be repeated.
func (f *Foreign) HasKey() bool {
	return f.KeyHeader != "" || slices.Contains(mentions(append(slices.Clone(f.Headers), f.Request)...), "key")
}

// Check says what is wrong with the description, in the words of the command line.
func (f *Foreign) Check() error {
	errs := []error{f.checkLaunch(), f.checkRequests(), f.checkReset(), f.Stock.check("stock"), f.Orders.check("orders")}
	for name, m := range map[string]Meaning{"ok": f.OK, "refused": f.Refused, "declined": f.Declined} {
		if _, err := regexp.Compile(m.Body); err != nil {
			errs = append(errs, fmt.Errorf("--%s-body: %w", name, err))
		}
	}
	for _, err := range errs {
		if err != nil {
			return err // one at a time: the first is the one to mend first
		}
	}
	return f.checkSources()
}

func (f *Foreign) checkLaunch() error {
	words, err := SplitWords(f.Serve)
	switch {
	case err != nil:
		return fmt.Errorf("--serve: %w", err)
	case len(words) == 0:
		return errors.New("--serve: want the command that starts a replica of your service")
	}
	for _, text := range append([]string{f.Serve}, f.Env...) {
		if err := onlyMentions("serve", text, launchWords); err != nil {
			return err
		}
	}
	for _, e := range f.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return fmt.Errorf("--env %q: want NAME=VALUE", e)
		}
	}
	if all := f.launched(); !slices.Contains(all, "port") && !slices.Contains(all, "addr") {
		return errors.New("--serve: say {{port}} or {{addr}} where your service learns on which port of 127.0.0.1 to listen; --env takes it too")
	}
	if !f.UsesRedis() && !f.UsesSQL() {
		return errors.New("--serve: say {{redis}} or {{mysql}} (or their parts, {{redis_host}}, {{mysql_port}}, ...) where your service learns its servers: the lab can stop only what passes its proxies")
	}
	return nil
}

func (f *Foreign) checkRequests() error {
	if _, _, _, err := splitRequest(f.Request); err != nil {
		return fmt.Errorf("--request %q: %w", f.Request, err)
	}
	if err := onlyMentions("request", f.Request, askWords); err != nil {
		return err
	}
	for _, h := range f.Headers {
		if name, _, ok := strings.Cut(h, ":"); !ok || strings.TrimSpace(name) == "" {
			return fmt.Errorf("--header %q: want 'Name: value'", h)
		}
		if err := onlyMentions("header", h, askWords); err != nil {
			return err
		}
	}
	return nil
}

func (f *Foreign) checkReset() error {
	if len(f.ResetSQL)+len(f.ResetRedis)+len(f.ResetURL) == 0 {
		return errors.New("--reset-sql, --reset-redis or --reset-url is needed: every schedule begins with {{stock}} units of {{product}} and no order")
	}
	for _, text := range f.ResetURL {
		if _, _, _, err := splitRequest(text); err != nil {
			return fmt.Errorf("--reset-url %q: %w", text, err)
		}
	}
	for _, text := range slices.Concat(f.ResetSQL, f.ResetRedis, f.ResetURL) {
		if err := onlyMentions("reset-...", text, resetWords); err != nil {
			return err
		}
	}
	for _, text := range f.ResetRedis {
		if words, err := SplitWords(text); err != nil || len(words) == 0 {
			return fmt.Errorf("--reset-redis %q: want a command of Redis (%w)", text, errors.Join(err))
		}
	}
	return nil
}

// checkSources says whether everything that is read or reset has its server.
func (f *Foreign) checkSources() error {
	if (f.Stock.Redis != "" || f.Orders.Redis != "" || len(f.ResetRedis) > 0) && !f.UsesRedis() {
		return errors.New("--serve has no {{redis}}, so that there is no Redis to read or to reset")
	}
	if (f.Stock.SQL != "" || f.Orders.SQL != "" || len(f.ResetSQL)+len(f.SetupSQL) > 0) && !f.UsesSQL() {
		return errors.New("--serve has no {{mysql}}, so that there is no database to read or to reset")
	}
	return nil
}

func (s Source) check(what string) error {
	given := 0
	for _, text := range []string{s.SQL, s.Redis, s.URL} {
		if text != "" {
			given++
		}
		if err := onlyMentions(what+"-...", text, []string{"product"}); err != nil {
			return err
		}
	}
	if given != 1 {
		return fmt.Errorf("--%s-sql, --%s-redis or --%s-url: want one of them: without it nobody can say what was sold", what, what, what)
	}
	if _, err := SplitWords(s.Redis); err != nil {
		return fmt.Errorf("--%s-redis: %w", what, err)
	}
	if s.URL != "" && !strings.HasPrefix(s.URL, "/") {
		return fmt.Errorf("--%s-url %q: want a path of your service, as in /products/{{product}}#/stock", what, s.URL)
	}
	return nil
}

// splitRequest reads METHOD PATH [BODY].
func splitRequest(text string) (method, path, body string, err error) {
	method, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	path, body, _ = strings.Cut(strings.TrimSpace(rest), " ")
	if method == "" || strings.ToUpper(method) != method || !strings.HasPrefix(path, "/") {
		return "", "", "", errors.New("want METHOD PATH [BODY], as in 'POST /buy?product={{product}}'")
	}
	return method, path, strings.TrimSpace(body), nil
}

// Service is what the rig knows about the service.
func (f *Foreign) Service() Service {
	return Service{
		Argv: f.argv, Env: f.env, Ready: f.ready, Reset: f.reset, Request: f.request, Answer: f.answer, Ledger: f.ledger,
		Setup: f.setup, Dir: f.Dir, Alone: true, Waits: true, Open: !f.takesPassword(),
	}
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

// values are what the placeholders of a command line stand for.
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

// parseDSN takes a DSN of the lab's own apart: user:password@tcp(addr)/database.
func parseDSN(dsn string) (user, password, addr, database string, ok bool) {
	account, rest, ok := strings.Cut(dsn, "@tcp(")
	user, password, _ = strings.Cut(account, ":")
	addr, database, found := strings.Cut(rest, ")/")
	return user, password, addr, database, ok && found
}

// ready asks the replica whether it can serve.
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

func (f *Foreign) request(replica string, a Ask) (*http.Request, error) {
	req, err := f.toSend(replica, f.Request, map[string]string{"product": strconv.FormatInt(a.Product, 10), "key": a.Key})
	if err == nil && f.KeyHeader != "" {
		req.Header.Set(f.KeyHeader, a.Key)
	}
	return req, err
}

// toSend makes a request of METHOD PATH [BODY].
func (f *Foreign) toSend(replica, text string, values map[string]string) (*http.Request, error) {
	method, path, body, err := splitRequest(text)
	if err != nil {
		return nil, err
	}
	var content io.Reader
	if body = expand(body, values); body != "" {
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
		req.Header.Set(strings.TrimSpace(name), expand(strings.TrimSpace(value), values))
	}
	return req, nil
}

// answer reads an answer by the meanings. Those with an expression for the body come first: a service that answers everything with 200 says
// only there what happened.
func (f *Foreign) answer(res *http.Response, body []byte) audit.Op {
	op := audit.Op{Outcome: audit.Unknown, Replayed: res.Header.Get(api.HeaderReplayed) == "true"}
	meanings := []struct {
		m       Meaning
		outcome audit.Outcome
	}{{f.Refused, audit.Refused}, {f.Declined, audit.Declined}, {f.OK, audit.OK}}
	for _, strict := range []bool{true, false} {
		for _, x := range meanings {
			if (x.m.Body != "") == strict && x.m.fits(res.StatusCode, body) && op.Outcome == audit.Unknown {
				op.Outcome = x.outcome
			}
		}
	}
	switch op.Outcome {
	case audit.OK:
		op.OrderID = f.orderIn(body)
	case audit.Refused:
		op.Code = api.SoldOut
	case audit.Declined:
		op.Code = api.LockBusy // so that the judge counts it where nobody is served any more
	default:
	}
	return op
}

func (m Meaning) fits(status int, body []byte) bool {
	if !slices.Contains(m.Statuses, status) {
		return false
	}
	is, err := regexp.Match(m.Body, body)
	return err == nil && is
}

// orderIn is the id of the order in an answer; "" where it says none.
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

// Needs are the servers of the service, by the names of localstack.
func (f *Foreign) Needs() []string {
	var all []string
	if f.UsesRedis() {
		all = append(all, localstack.Redis)
	}
	if f.UsesSQL() {
		all = append(all, localstack.MySQL)
	}
	return all
}
