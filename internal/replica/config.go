package replica

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"lastitem/internal/backend"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/say/redact"
)

// Config is the settings of a replica. [Read] reads it, with the defaults of its tags, and [Config.Validate] checks it.
// The tags help and zh are the setting's line in 'shop serve --help' and in docs/settings.md; group begins a new group
// there, and secret marks a value that can hold a password or a token (see [Settings]).
type Config struct {
	Listen       string `env:"SHOP_LISTEN" envDefault:"127.0.0.1:8080" group:"replica" help:"address to listen on"`
	Replica      string `env:"SHOP_REPLICA" envDefault:"1" help:"name of this replica, in X-Replica and on its orders"`
	Token        string `env:"SHOP_ADMIN_TOKEN" secret:"true" help:"bearer token of an operator: for setting stock, returns and the list of reservations; without it they answer 401"`
	ProtectReads bool   `env:"SHOP_PROTECT_READS" envDefault:"false" help:"require the admin token for orders, ledger, audit and metrics as well"`
	Events       bool   `env:"SHOP_EVENTS" envDefault:"false" help:"serve GET /events, the live steps that the console shows; wants the admin token"`

	Hosts hostNames `env:"SHOP_HOSTS" help:"host names that requests may use, comma-separated; IP addresses and names without a dot are always allowed; * = any; default: none besides those when listening on loopback and in docker-compose.yml, otherwise any"`

	DefaultMode  string        `env:"SHOP_DEFAULT_MODE" envDefault:"lease-seq" help:"mode of POST /deduct_stock without a mode"`
	LockTTL      time.Duration `env:"SHOP_LOCK_TTL" envDefault:"10s" help:"expiry of the locks that have one, at most 24h"`
	RedlockGuard time.Duration `env:"SHOP_REDLOCK_GUARD" envDefault:"0s" help:"how long a Redlock node grants nothing after a restart: the longest SHOP_LOCK_TTL of all replicas, since a lock that the node forgot has expired by then; 0: no guard"`
	LockReplicas int           `env:"SHOP_LOCK_REPLICAS" envDefault:"0" help:"number of Redis replicas that must confirm each lock of the lock engine within 1s (WAIT); 0: none"`
	FailFast     bool          `env:"SHOP_FAIL_FAST" envDefault:"false" help:"end, instead of trying again, if Redis or SQL refuses the account (password, rights) before the replica has been ready"`
	Drain        time.Duration `env:"SHOP_DRAIN" envDefault:"0s" help:"how long a replica goes on answering, while not ready, before it shuts down; Ctrl-C (SIGINT) skips that"`

	ReadyNeeds backendNames `env:"SHOP_READY_NEEDS" help:"backends without which /readyz answers 503, comma-separated: redis,sql; by default it does so only if none of Redis, SQL and etcd can be used, since modes without the missing one are served"`

	Redis     string  `env:"SHOP_REDIS" secret:"true" group:"backends" help:"redis://[:password@]host:port/db, or rediss:// for TLS; a comma-separated list for a cluster; redis+sentinel://host:port,host:port/MASTER/db for Sentinel"`
	SQL       string  `env:"SHOP_SQL" secret:"true" help:"user:password@tcp(host:port)/db for MySQL (?tls=true), or sqlite:/path/to/file.db"`
	Redlock   string  `env:"SHOP_REDLOCK" secret:"true" help:"redis:// URLs of independent masters, comma-separated, commonly five, for the mode redlock"`
	ZooKeeper string  `env:"SHOP_ZOOKEEPER" help:"host:port, several comma-separated, for the mode zookeeper"`
	Etcd      string  `env:"SHOP_ETCD" secret:"true" help:"http://[user:password@]host:port, several comma-separated, for the modes on etcd"`
	Consul    string  `env:"SHOP_CONSUL" help:"http://host:port of the agent, for the mode consul"`
	Kafka     string  `env:"SHOP_KAFKA" help:"host:port, several comma-separated, for the mode kafka"`
	Prefix    string  `env:"SHOP_REDIS_PREFIX" envDefault:"lastitem:" help:"prefix of every key in Redis and etcd"`
	Conns     int     `env:"SHOP_CONNS" envDefault:"64" help:"maximum number of connections for requests to MySQL and to each Redis server; besides these a replica opens up to 50 to MySQL and 15 to each Redis server, for group commits, reservations, pipelines, subscriptions, probes and purges"`
	Missing   reasons `env:"SHOP_MISSING" help:"what GET /modes advises if a backend is missing, as JSON: {\"etcd\":\"...\"}; by default it names the variable to set"`

	WorkTimeout   time.Duration `env:"SHOP_WORK_TIMEOUT" envDefault:"5s" group:"times" help:"how long a request may take beyond its wait_ms and hold_ms; it is answered then, even if a backend hangs. Audits, and setting the stock of a product with many orders, may take up to a minute more: the time-out of a proxy in front must be longer by that"`
	HealthEvery   time.Duration `env:"SHOP_HEALTH_INTERVAL" envDefault:"1s" help:"time between two health probes of a backend; a probe is a small write on its own connection; 0: no probes, every backend counts as healthy"`
	HealthWithin  time.Duration `env:"SHOP_HEALTH_TIMEOUT" envDefault:"900ms" help:"how long a probe may take; a backend is down after one refused probe, or two without an answer"`
	DialTimeout   time.Duration `env:"SHOP_DIAL_TIMEOUT" envDefault:"2s" help:"how long connecting to a backend may take"`
	RedisTimeout  time.Duration `env:"SHOP_REDIS_TIMEOUT" envDefault:"3s" help:"how long a Redis client waits for an answer"`
	LockTimeout   time.Duration `env:"SHOP_LOCK_TIMEOUT" envDefault:"2s" help:"how long the lock engine waits for an answer of Redis; an attempt to get a lock is given up after half of it"`
	SQLTimeout    time.Duration `env:"SHOP_SQL_TIMEOUT" envDefault:"30s" help:"how long a MySQL client waits for an answer, at least 2s; a wait for a row lock ends one second earlier"`
	SettleTimeout time.Duration `env:"SHOP_SETTLE_TIMEOUT" envDefault:"10s" help:"how long to wait for a MySQL COMMIT, and for each Redis command once a deduction has begun to write; counted from the sending"`
	EtcdTimeout   time.Duration `env:"SHOP_ETCD_TIMEOUT" envDefault:"3s" help:"how long a request to the stock in etcd may take"`
	ConsulTimeout time.Duration `env:"SHOP_CONSUL_TIMEOUT" envDefault:"15s" help:"how long Consul may take to begin an answer, not counting the wait of a blocking query"`
	ConsulSession time.Duration `env:"SHOP_CONSUL_SESSION" envDefault:"10s" help:"TTL of the sessions of the mode consul, at least the agent's session_ttl_min (10s), at most 24h; Consul may end a session up to one TTL late"`
	ConsulDelay   time.Duration `env:"SHOP_CONSUL_LOCK_DELAY" envDefault:"5s" help:"Consul's lock-delay: how long a key of the mode consul stays locked after its session has ended, at most 60s; below a third of the session's TTL a rival may get the key before the old holder is told"`

	KafkaSession   time.Duration `env:"SHOP_KAFKA_SESSION" envDefault:"6s" help:"how long a consumer of the mode kafka may be silent before it counts as dead; brokers accept 6s to 30m by default"`
	KafkaHeartbeat time.Duration `env:"SHOP_KAFKA_HEARTBEAT" envDefault:"1s" help:"time between two heartbeats of such a consumer; less than SHOP_KAFKA_SESSION"`
	KafkaRebalance time.Duration `env:"SHOP_KAFKA_REBALANCE" envDefault:"6s" help:"how long the consumer group waits for a member during a rebalance"`

	KeepKeys   time.Duration `env:"SHOP_KEEP_KEYS" envDefault:"24h" group:"retention" help:"minimum time for which the first answer to an Idempotency-Key is kept, except refusals: ten minutes at most, in Redis the last 10,000 to 20,000 of each product and none while more than half of its memory is used, in SQL the last 50,000; a key repeated later deducts again; 0: forever"`
	PurgeEvery time.Duration `env:"SHOP_PURGE_INTERVAL" envDefault:"1m" help:"time between two purges of older keys; every replica purges in small batches on separate connections; 0: no purges"`

	Sweep            time.Duration `env:"SHOP_SWEEP" envDefault:"1s" help:"mean time between two sweeps that end overdue reservations and give their units back; every replica sweeps; 0: this replica does not"`
	KeepReservations time.Duration `env:"SHOP_KEEP_HOLDS" envDefault:"168h" help:"how long a reservation is kept after its end if a payment came for it, or a late payment may still become an order; others are kept for one hour; 0: all are kept forever"`

	TicketConsume  bool          `env:"SHOP_TICKET_CONSUME" envDefault:"true" group:"tickets" help:"this replica writes the orders of tickets, those of other replicas too"`
	TicketClaim    time.Duration `env:"SHOP_TICKET_CLAIM" envDefault:"0s" help:"after how long a ticket is taken over from a replica that has not written its order; more than SHOP_SETTLE_TIMEOUT; 0: 5s more"`
	TicketsMost    int           `env:"SHOP_TICKETS_MAX" envDefault:"50000" help:"how many tickets of a product may wait for their orders; above that 503 queue_full"`
	TicketReplicas int           `env:"SHOP_TICKET_REPLICAS" envDefault:"0" help:"number of Redis replicas that must have a ticket within 1s before it is told (WAIT), else 504 outcome_unknown; 0: none"`
	TicketWaiters  int           `env:"SHOP_TICKET_WAITERS" envDefault:"10000" help:"how many requests may wait for the end of a ticket in this replica; above that 429"`
	Reconcile      time.Duration `env:"SHOP_RECONCILE" envDefault:"0s" help:"mean time between two comparisons of Redis with SQL, of each product that is sold by tickets; 0: this replica makes none"`
	Repair         bool          `env:"SHOP_RECONCILE_REPAIR" envDefault:"false" help:"such a comparison repairs the count in Redis if two of them, SHOP_SETTLE_TIMEOUT apart, agree"`

	OTLP        string `env:"OTEL_EXPORTER_OTLP_ENDPOINT" secret:"true" group:"traces" help:"collector that deductions are sent to as OpenTelemetry traces, over OTLP/HTTP: http://localhost:4318; without it there are no traces"`
	OTLPHeaders string `env:"OTEL_EXPORTER_OTLP_HEADERS" secret:"true" help:"HTTP headers for the collector: name=value, several comma-separated, the values percent-encoded"`

	LogLevel  slog.Level `env:"SHOP_LOG_LEVEL" envDefault:"info" group:"logs" help:"debug, info, warn or error"`
	LogFormat logFormat  `env:"SHOP_LOG_FORMAT" envDefault:"text" help:"text (logfmt) or json, one line per record"`

	given map[string]string // the values that flags gave, by the variable that each replaces
}

// backends is where the backends are, and how they are waited for.
func (c Config) backends(o Options) backend.Config {
	return backend.Config{
		Redis: c.Redis, SQL: c.SQL, Redlock: c.Redlock, ZooKeeper: c.ZooKeeper, Etcd: c.Etcd, Consul: c.Consul,
		Kafka: c.Kafka, Session: c.LockTTL, Prefix: c.Prefix, Conns: c.Conns,
		Patience: backend.Patience{
			Dial: c.DialTimeout, Redis: c.RedisTimeout, SQL: c.SQLTimeout, Settle: c.SettleTimeout, Etcd: c.EtcdTimeout,
			HTTP: c.ConsulTimeout,
		},
		Health: backend.Health{Every: c.HealthEvery, Within: c.HealthWithin}, Log: o.Log,
		Name:  func(backend string) string { return c.name("SHOP_" + strings.ToUpper(backend)) },
		Purge: backend.Purge{Every: c.PurgeEvery, Keep: c.KeepKeys},
	}
}

// servedHosts are the host names that the handler accepts; nil = any. The default is strict on loopback, since a page
// of any site can make the browser send requests to a local service (DNS rebinding).
func (c Config) servedHosts() []string {
	switch {
	case slices.Contains(c.Hosts, "*"):
		return nil
	case c.Hosts != nil:
		return append([]string{"localhost"}, c.Hosts...)
	case onLoopback(c.Listen):
		return []string{"localhost"}
	}
	return nil
}

// onLoopback says whether a listening address can be reached from this machine only.
func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// log prints the configuration once, secrets masked.
func (c Config) log(o Options) {
	token := "unset: stock cannot be set over HTTP" //nolint:gosec // says that there is none
	if c.Token != "" {
		token = "set"
	}
	all := []any{"listen", c.Listen, "replica", c.Replica, "redis", redact.Address(c.Redis), "sql", redact.Address(c.SQL)}
	for _, x := range [][2]string{{"redlock", c.Redlock}, {"zookeeper", c.ZooKeeper}, {"etcd", c.Etcd},
		{"consul", c.Consul}, {"kafka", c.Kafka}} {
		if x[1] != "" {
			all = append(all, x[0], redact.Address(x[1]))
		}
	}
	o.Log.Info("shop", append(all, "default_mode", c.DefaultMode, "lock_ttl", c.LockTTL, "admin_token", token, "version",
		o.Version)...)
}

// Logger writes logs to w, in the format and from the level that the settings say.
func (c Config) Logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(step.LogHandler(slog.NewJSONHandler(w, options)))
	}
	return slog.New(step.LogHandler(slog.NewTextHandler(w, options)))
}

// hostNames are host names in lower case; nil = not given.
type hostNames []string

// UnmarshalText reads names separated by commas.
func (h *hostNames) UnmarshalText(text []byte) error {
	*h = hostNames{}
	for _, name := range strings.FieldsFunc(strings.ToLower(string(text)), func(r rune) bool {
		return r == ',' || r == ' '
	}) {
		if name != "*" && strings.ContainsAny(name, ":/*") {
			return errors.New("not a name")
		}
		*h = append(*h, name)
	}
	return nil
}

// backendNames are names of backends.
type backendNames []string

// UnmarshalText reads names separated by commas.
func (n *backendNames) UnmarshalText(text []byte) error {
	*n = strings.FieldsFunc(strings.ToLower(string(text)), func(r rune) bool { return r == ',' || r == ' ' })
	return nil
}

// reasons says why backends are missing: a JSON object by name of the backend. The program that started this process
// knows why.
type reasons map[stock.Backend]string

// UnmarshalText reads JSON.
func (r *reasons) UnmarshalText(text []byte) error {
	return json.Unmarshal(text, (*map[stock.Backend]string)(r))
}

// logFormat is how log lines are written: text (logfmt) or json.
type logFormat string

// UnmarshalText reads the name of a format.
func (f *logFormat) UnmarshalText(text []byte) error {
	if *f = logFormat(text); *f != "text" && *f != "json" {
		return errors.New("unknown format")
	}
	return nil
}
