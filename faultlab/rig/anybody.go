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

// Foreign describes somebody else's service, in any language: how to start it, what to send, how to reset and read its stock. Its texts may
// contain placeholders such as {{port}}; [Foreign.Check] names those that are allowed. It is stored with a story, so that a replay needs
// nothing else.
type Foreign struct {
	// Serve is the command line of a replica; Env are variables added to its environment, NAME=VALUE.
	Serve string   `json:"serve"`
	Env   []string `json:"env,omitempty"`
	// Ready is a path that answers 2xx or 3xx when the replica is ready; "" = any HTTP answer counts as ready.
	Ready string `json:"ready,omitempty"`
	// Request is what a client sends: METHOD PATH [BODY]. Headers are added to every request to the service, "Name: value".
	Request string   `json:"request"`
	Headers []string `json:"headers,omitempty"`
	// KeyHeader is the header of the idempotency key; "" = no such header, but Request and Headers may contain {{key}}.
	KeyHeader string `json:"key_header,omitempty"`
	// OK, Refused (sold out) and Declined (busy, nothing happened) classify an answer. Any other answer is unknown: the sale may have happened.
	OK       Meaning `json:"ok"`
	Refused  Meaning `json:"refused"`
	Declined Meaning `json:"declined"`
	// OrderID is the JSON pointer to the order's id in an answer; "" = the field order_id or orderId.
	OrderID string `json:"order_id,omitempty"`
	// SetupSQL is run once in the schema of each lane. Before every schedule the lab empties Redis (unless KeepRedis), then runs ResetSQL,
	// ResetRedis and ResetURL (requests to the service, METHOD PATH [BODY]), in this order.
	SetupSQL   []string `json:"setup_sql,omitempty"`
	ResetSQL   []string `json:"reset_sql,omitempty"`
	ResetRedis []string `json:"reset_redis,omitempty"`
	ResetURL   []string `json:"reset_url,omitempty"`
	KeepRedis  bool     `json:"keep_redis,omitempty"`
	// Stock and Orders say where to read the remaining stock and the orders.
	Stock  Source `json:"stock"`
	Orders Source `json:"orders"`
	// LockTTL is the TTL of the service's locks; 0 = the longest TTL that the lab sees in Redis while a request is held.
	LockTTL time.Duration `json:"lock_ttl_ns,omitempty"`

	// Dir is the working directory of the replicas.
	Dir string `json:"-"`
}

// Meaning says which answers have one outcome: those with one of the HTTP statuses whose body matches the regular expression Body ("" = any).
type Meaning struct {
	Statuses []int  `json:"statuses"`
	Body     string `json:"body,omitempty"`
}

// Source is where to read a number or rows. Exactly one field is set: SQL is a query, Redis a command, URL a path of the service with a JSON
// pointer into the answer after "#".
type Source struct {
	SQL   string `json:"sql,omitempty"`
	Redis string `json:"redis,omitempty"`
	URL   string `json:"url,omitempty"`
}

// ServiceName is the name of the only mode of a foreign service.
const ServiceName = "service"

// theirStore is the store of the stock in the ledger of a foreign service.
const theirStore api.Store = "service"

// The placeholders allowed in a command line and its environment, in requests, and in resets.
var (
	launchWords = []string{
		"port", "addr", "replica", "redis", "redis_host", "redis_port", "redis_addr", "redis_password",
		"mysql", "mysql_dsn", "mysql_jdbc", "mysql_host", "mysql_port", "mysql_addr", "mysql_user", "mysql_password", "mysql_database", "ttl_ms", "ttl_s",
	}
	askWords   = []string{"product", "key"}
	resetWords = []string{"product", "stock"}
)

// UsesRedis says whether the command line or the environment names Redis.
func (f *Foreign) UsesRedis() bool { return f.uses("redis") }

// UsesSQL says whether the command line or the environment names the database.
func (f *Foreign) UsesSQL() bool { return f.uses("mysql") }

func (f *Foreign) uses(server string) bool {
	return slices.ContainsFunc(f.launched(), func(name string) bool { return strings.HasPrefix(name, server) })
}

// launched lists the placeholders of the command line and the environment.
func (f *Foreign) launched() []string { return mentions(append(slices.Clone(f.Env), f.Serve)...) }

// TakesTTL says whether the lab chooses the TTL of the locks: {{ttl_ms}} or {{ttl_s}} is used.
func (f *Foreign) TakesTTL() bool {
	return slices.ContainsFunc(f.launched(), func(name string) bool { return strings.HasPrefix(name, "ttl_") })
}

// takesPassword says whether the service is told the password of Redis. If not, Redis gets none.
func (f *Foreign) takesPassword() bool {
	return slices.ContainsFunc(f.launched(), func(name string) bool { return name == "redis" || name == "redis_password" })
}

// HasKey says whether a request carries an idempotency key; the fault retry needs one.
func (f *Foreign) HasKey() bool {
	return f.KeyHeader != "" || slices.Contains(mentions(append(slices.Clone(f.Headers), f.Request)...), "key")
}

// Check returns the first mistake in the description as an error that names the option to change; nil = none.
func (f *Foreign) Check() error {
	errs := []error{f.checkLaunch(), f.checkRequests(), f.checkReset(), f.Stock.check("stock"), f.Orders.check("orders")}
	for name, m := range map[string]Meaning{"ok": f.OK, "refused": f.Refused, "declined": f.Declined} {
		if _, err := regexp.Compile(m.Body); err != nil {
			errs = append(errs, fmt.Errorf("--%s-body: %w", name, err))
		}
	}
	for _, err := range errs {
		if err != nil {
			return err // only the first: it is to be corrected first
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
		return errors.New("--serve: use {{port}} or {{addr}}, also in --env, to tell your service on which port of 127.0.0.1 to listen")
	}
	if !f.UsesRedis() && !f.UsesSQL() {
		return errors.New("--serve: use {{redis}} or {{mysql}} (or parts such as {{redis_host}}, {{mysql_port}}), also in --env, to give your service the addresses of the proxies: the lab can stop only what passes its proxies")
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
		return errors.New("give --reset-sql, --reset-redis or --reset-url: every schedule begins with {{stock}} units of {{product}} and no orders")
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
			return fmt.Errorf("--reset-redis %q: want a Redis command (%w)", text, errors.Join(err))
		}
	}
	return nil
}

// checkSources returns an error if Redis or SQL is to be read or reset that the service does not use.
func (f *Foreign) checkSources() error {
	if (f.Stock.Redis != "" || f.Orders.Redis != "" || len(f.ResetRedis) > 0) && !f.UsesRedis() {
		return errors.New("--serve has no {{redis}}: the lab has no Redis to read or to reset")
	}
	if (f.Stock.SQL != "" || f.Orders.SQL != "" || len(f.ResetSQL)+len(f.SetupSQL) > 0) && !f.UsesSQL() {
		return errors.New("--serve has no {{mysql}}: the lab has no database to read or to reset")
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
		return fmt.Errorf("--%s-sql, --%s-redis or --%s-url: want one of them, from which the lab reads what was sold", what, what, what)
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

// Service returns the description in the form that a lane runs.
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

func (f *Foreign) request(replica string, a Ask) (*http.Request, error) {
	req, err := f.toSend(replica, f.Request, map[string]string{"product": strconv.FormatInt(a.Product, 10), "key": a.Key})
	if err == nil && f.KeyHeader != "" {
		req.Header.Set(f.KeyHeader, a.Key)
	}
	return req, err
}

// toSend makes an HTTP request from METHOD PATH [BODY], its placeholders filled in.
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

// answer classifies an answer. Meanings with an expression for the body are tried first, since a service that answers everything with 200
// states the outcome only in the body.
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
		op.Code = api.LockBusy // the judge counts this code to find a product that is stuck
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

// Needs returns the servers that the service uses, by the names of localstack.
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
