package target

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// Foreign describes somebody else's service, in any language: how to start it, what to send, how to reset and read its
// stock. Its texts may contain placeholders such as {{port}}; [Foreign.Check] names those that are allowed. It is
// stored with a story, without the values of Env and Headers: see [Foreign.Complete].
type Foreign struct {
	// Serve is the command line of a replica; Env are variables added to its environment, NAME=VALUE.
	Serve string   `json:"serve"`
	Env   []string `json:"env,omitempty"`
	// Ready is a path that answers 2xx or 3xx when the replica is ready; "" = any HTTP answer counts as ready.
	Ready string `json:"ready,omitempty"`
	// Request is what a client sends: METHOD PATH [BODY]. Headers are added to every request to the service, "Name:
	// value".
	Request string `json:"request"`
	// Arrange prepares a buyer, and Buy is his purchase, step by step; nil = Request is the purchase. Where Buy has steps,
	// Request is the last one, for people. Session are headers of every step once what they mention was saved, and Then
	// asks for an outcome that was promised; nil = the last step tells it.
	Arrange []Step   `json:"arrange,omitempty"`
	Buy     []Step   `json:"buy,omitempty"`
	Session []string `json:"session,omitempty"`
	Then    *Then    `json:"then,omitempty"`
	// Cancel gives an order back, and Ship makes it one that cannot be cancelled any more: their Sold means done, with a
	// 202 that it will be. They may mention {{order}}; nil = the service is not asked for it. With Cancel, Buy has steps.
	Cancel  *Step    `json:"cancel,omitempty"`
	Ship    *Step    `json:"ship,omitempty"`
	Headers []string `json:"headers,omitempty"`
	// ReadHeaders are added to the requests that reset and read, to whatever host they go; Headers go to no other host.
	ReadHeaders []string `json:"read_headers,omitempty"`
	// KeyHeader is the header of the idempotency key; "" = no such header, but Request and Headers may contain {{key}}.
	KeyHeader string `json:"key_header,omitempty"`
	// RepeatWithoutKey plays the retry of a client that has no key.
	RepeatWithoutKey bool `json:"repeat_without_key,omitempty"`
	// OK, Refused (sold out) and Declined (busy, nothing happened) classify an answer. Any other answer is unknown: the
	// sale may have happened.
	OK       Meaning `json:"ok"`
	Refused  Meaning `json:"refused"`
	Declined Meaning `json:"declined"`
	// OrderID is the JSON pointer to the order's id in an answer; "" = the field order_id or orderId. Order is another
	// place for it; zero = OrderID says it.
	OrderID string `json:"order_id,omitempty"`
	Order   Save   `json:"order,omitzero"`
	// SetupCmd are commands that prepare the servers of a lane, once, with the placeholders of Serve; SetupSQL follows.
	SetupCmd []string `json:"setup_cmd,omitempty"`
	// ReadyWithin is how long a replica may take until it is ready, and each SetupCmd; 0 = three minutes.
	ReadyWithin time.Duration `json:"ready_within_ns,omitempty"`
	// SetupSQL is run once in the schema of each lane. Before every schedule the lab empties Redis (unless KeepRedis),
	// then runs ResetSQL, ResetRedis, ResetURL (requests to the service, METHOD PATH [BODY]) and ResetCmd (commands), in
	// this order.
	SetupSQL   []string `json:"setup_sql,omitempty"`
	ResetSQL   []string `json:"reset_sql,omitempty"`
	ResetRedis []string `json:"reset_redis,omitempty"`
	ResetURL   []string `json:"reset_url,omitempty"`
	ResetCmd   []string `json:"reset_cmd,omitempty"`
	KeepRedis  bool     `json:"keep_redis,omitempty"`
	// ResetWithin is how long all resets of one product may take together; 0 = a minute.
	ResetWithin time.Duration `json:"reset_within_ns,omitempty"`
	// Insecure takes every certificate of the service.
	Insecure bool `json:"insecure,omitempty"`
	// Stock and Orders say where to read the remaining stock and the orders.
	Stock  Source `json:"stock"`
	Orders Source `json:"orders"`
	// Products are the names for {{product}}, in turn; nil = the numbers.
	Products []string `json:"products,omitempty"`
	// Settle is how long the books may take to add up after a schedule; 0 = see rig.Scene.Judge.
	Settle time.Duration `json:"settle_ns,omitempty"`
	// LockTTL is the TTL of the service's locks; 0 = the longest TTL that the lab sees in Redis while a request is held.
	LockTTL time.Duration `json:"lock_ttl_ns,omitempty"`

	// Dir is the working directory of the replicas.
	Dir string `json:"-"`

	// Anonymous: nothing connects a key with its order, as answers contain no order id, and orders no key. The lab knows
	// it after the first answers.
	Anonymous bool `json:"-"`
}

// Meaning describes the answers with one outcome: they have one of the HTTP statuses, and their body and their header
// Location match the regular expressions Body and Location ("" = any). Without statuses any below 500 will do, if there
// is an expression; the zero value fits nothing.
type Meaning struct {
	Statuses []int  `json:"statuses,omitempty"`
	Body     string `json:"body,omitempty"`
	Location string `json:"location,omitempty"`
}

// Source is where to read a number or rows. Exactly one field is set: SQL is a query, Redis a command, URL a path of
// the service with a JSON pointer into the answer after "#".
type Source struct {
	SQL   string `json:"sql,omitempty"`
	Redis string `json:"redis,omitempty"`
	URL   string `json:"url,omitempty"`
}

// Step is one request of a purchase that takes several. Its texts may contain the placeholders of [StepWords], and the
// names of what earlier steps have saved.
type Step struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	// Type is the content type of Body; in JSON and in forms the values of placeholders are escaped.
	Type string `json:"type,omitempty"`
	Body string `json:"body,omitempty"`
	// Headers are "Name: value".
	Headers []string `json:"headers,omitempty"`
	Save    []Save   `json:"save,omitempty"`
	// Sold, Refused and Declined classify the answer. Sold says of the last step before Then that its answer is a promise;
	// where the last step decides, [Foreign] has its meanings. A step of Arrange has Refused only.
	Sold     Meaning `json:"sold,omitzero"`
	Refused  Meaning `json:"refused,omitzero"`
	Declined Meaning `json:"declined,omitzero"`
}

// String is METHOD PATH.
func (s Step) String() string { return s.Method + " " + s.Path }

// Save keeps a value of an answer under a name. The value is at a JSON pointer, in a header, in a cookie, or in the
// first group of a regular expression, which reads the header if one is named, else the body.
type Save struct {
	Name   string `json:"name,omitempty"`
	JSON   string `json:"json,omitempty"`
	Header string `json:"header,omitempty"`
	Cookie string `json:"cookie,omitempty"`
	Regex  string `json:"regex,omitempty"`
}

// Then asks for the outcome of a purchase that was only promised, until an answer fits Until. If none does Within that
// time, the outcome is unknown.
type Then struct {
	Step
	Until  Meaning       `json:"until"`
	Within time.Duration `json:"within_ns"`
}

// ServiceName is the name of the only mode of a foreign service.
const ServiceName = "service"

// ForeignStore is the store of the stock in the ledger of a foreign service.
const ForeignStore api.Store = "service"

// ErrOutOfReach means that signals do not reach a foreign service: what the lab calls killed or stopped would go on. It
// ends the exploration.
var ErrOutOfReach = text.Of("signals do not reach your service: --serve must start it in the foreground, without " +
	"daemon, setsid, nohup & or a process manager").Errorf()

// The placeholders allowed in a command line and its environment, in requests, and in resets.
var (
	morePorts   = []string{"port2", "port3", "port4", "port5", "port6", "port7", "port8", "port9"}
	serverWords = []string{
		"redis", "redis_host", "redis_port", "redis_addr", "redis_password",
		"mysql", "mysql_dsn", "mysql_jdbc", "mysql_host", "mysql_port", "mysql_addr", "mysql_user", "mysql_password",
		"mysql_database", "postgres", "postgres_jdbc", "postgres_host", "postgres_port", "postgres_addr", "postgres_user",
		"postgres_password", "postgres_database", "ttl_ms", "ttl_s",
	}
	launchWords = slices.Concat([]string{"port", "addr", "replica"}, morePorts, serverWords)
	askWords    = []string{"product", "quantity", "key"}
	resetWords  = []string{"product", "stock"}
	resetRun    = slices.Concat(resetWords, serverWords)
)

// ProductName is what stands for a product in place of {{product}}.
func (f *Foreign) ProductName(product int64) string {
	if n := int64(len(f.Products)); n > 0 {
		return f.Products[(product%n+n)%n]
	}
	return strconv.FormatInt(product, 10)
}

// UsesRedis says whether the command line or the environment names Redis.
func (f *Foreign) UsesRedis() bool { return f.uses("redis") }

// UsesMySQL says whether the command line or the environment names MySQL.
func (f *Foreign) UsesMySQL() bool { return f.uses("mysql") }

// UsesPostgres says whether the command line or the environment names PostgreSQL.
func (f *Foreign) UsesPostgres() bool { return f.uses("postgres") }

// UsesSQL says whether the command line or the environment names a database.
func (f *Foreign) UsesSQL() bool { return f.UsesMySQL() || f.UsesPostgres() }

func (f *Foreign) uses(server string) bool {
	return slices.ContainsFunc(f.launched(), func(name string) bool { return strings.HasPrefix(name, server) })
}

// launched lists the placeholders of the command line and the environment.
func (f *Foreign) launched() []string { return mentions(append(slices.Clone(f.Env), f.Serve)...) }

// MorePorts is how many free ports a replica needs beside its own: as many as the last of {{port2}} to {{port9}} says.
func (f *Foreign) MorePorts() (n int) {
	for i, name := range morePorts {
		if slices.Contains(f.launched(), name) {
			n = i + 1
		}
	}
	return n
}

// TakesTTL says whether the lab chooses the TTL of the locks: {{ttl_ms}} or {{ttl_s}} is used.
func (f *Foreign) TakesTTL() bool {
	return slices.ContainsFunc(f.launched(), func(name string) bool { return strings.HasPrefix(name, "ttl_") })
}

// TakesPassword reports whether the service gets the password of Redis. If it does not, Redis has none.
func (f *Foreign) TakesPassword() bool {
	return slices.ContainsFunc(f.launched(), func(name string) bool { return name == "redis" || name == "redis_password" })
}

// HasKey says whether a request carries an idempotency key; the fault retry needs one.
func (f *Foreign) HasKey() bool {
	said := append(slices.Clone(f.Headers), f.Request)
	for _, s := range f.Buy {
		said = append(append(said, s.Path, s.Body), s.Headers...)
	}
	return f.KeyHeader != "" || slices.Contains(mentions(said...), "key")
}

// WhyNoRetry says why the fault retry cannot be played; zero = it can.
func (f *Foreign) WhyNoRetry() text.Text {
	switch {
	case f.HasKey() && f.Anonymous:
		return text.Of("the answers do not name the order (--order-id), and the orders have no field idempotency_key: a " +
			"second order for one key cannot be told from another customer's")
	case !f.HasKey() && !f.RepeatWithoutKey:
		return text.Of("the requests carry no idempotency key (--key-header, or {{key}} in --request), so no " +
			"purchase was repeated; --repeat-without-key repeats one as a client without a key does")
	}
	return text.Text{}
}
