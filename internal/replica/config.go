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
	"lastitem/internal/redact"
	"lastitem/internal/step"
	"lastitem/internal/stock"
)

// Config is the settings of a replica. [Read] reads it, with the defaults of its tags, and [Config.Validate] checks it. The tags help and zh
// are the setting's line in 'shop serve --help' and in docs/settings.md; group begins a new group there, and secret marks a value that can
// hold a password or a token (see [Settings]).
type Config struct {
	Listen       string `env:"SHOP_LISTEN" envDefault:"127.0.0.1:8080" group:"replica" help:"address to listen on" zh:"监听地址"`
	Replica      string `env:"SHOP_REPLICA" envDefault:"1" help:"name of this replica, in X-Replica and on its orders" zh:"副本名，出现在 X-Replica 和订单里"`
	Token        string `env:"SHOP_ADMIN_TOKEN" secret:"true" help:"bearer token of the routes that set stock; without it they answer 401" zh:"设置库存的接口所需的管理员令牌；不设则这些接口返回 401"`
	ProtectReads bool   `env:"SHOP_PROTECT_READS" envDefault:"false" help:"require the admin token for orders, ledger, audit and metrics as well" zh:"读取订单、账本、审计和指标也需要管理员令牌"`
	Events       bool   `env:"SHOP_EVENTS" envDefault:"false" help:"serve GET /events, the live steps that the console shows; wants the admin token" zh:"提供 GET /events，即控制台所显示的实时步骤流；需管理员令牌"`

	Hosts hostNames `env:"SHOP_HOSTS" help:"host names that requests may use, comma-separated; IP addresses and names without a dot are always allowed; * = any; default: none besides those when listening on loopback and in docker-compose.yml, otherwise any" zh:"请求可使用的主机名，逗号分隔；IP 地址和不含点的名字总是允许；* 表示任意。默认：只监听回环地址时，以及在 docker-compose.yml 里，不额外允许任何名字，否则任意"`

	DefaultMode  string        `env:"SHOP_DEFAULT_MODE" envDefault:"lease-seq" help:"mode of POST /deduct_stock without a mode" zh:"POST /deduct_stock 不带模式时所用的模式"`
	LockTTL      time.Duration `env:"SHOP_LOCK_TTL" envDefault:"10s" help:"expiry of the locks that have one, at most 24h" zh:"带过期时间的锁的 TTL，最多 24h"`
	RedlockGuard time.Duration `env:"SHOP_REDLOCK_GUARD" envDefault:"0s" help:"how long a Redlock node grants nothing after a restart: the longest SHOP_LOCK_TTL of all replicas, since a lock that the node forgot has expired by then; 0: no guard" zh:"红锁节点重启后多久之内不给任何人加锁，应为所有副本中最长的 SHOP_LOCK_TTL：节点忘掉的锁到那时都已过期；0 表示不设防"`
	LockReplicas int           `env:"SHOP_LOCK_REPLICAS" envDefault:"0" help:"number of Redis replicas that must confirm each lock of the lock engine within 1s (WAIT); 0: none" zh:"锁引擎每次加锁须有多少个 Redis 从节点在 1s 内确认（WAIT）；0 表示不等"`
	FailFast     bool          `env:"SHOP_FAIL_FAST" envDefault:"false" help:"end, instead of trying again, if Redis or SQL refuses the account (password, rights) before the replica has been ready" zh:"就绪之前，如果 Redis 或 SQL 拒绝该账号（密码或权限不对），直接退出而不再重试"`
	Drain        time.Duration `env:"SHOP_DRAIN" envDefault:"0s" help:"how long a replica goes on answering, while not ready, before it shuts down; Ctrl-C (SIGINT) skips that" zh:"下线前以“未就绪”状态继续服务多久；用 Ctrl-C（SIGINT）结束则跳过这一步"`

	ReadyNeeds backendNames `env:"SHOP_READY_NEEDS" help:"backends without which /readyz answers 503, comma-separated: redis,sql; by default it does so only if none of Redis, SQL and etcd can be used, since modes without the missing one are served" zh:"缺了哪些后端 /readyz 就返回 503，逗号分隔，如 redis,sql；默认只有 Redis、SQL、etcd 都不可用时才返回 503，因为不用故障后端的模式照常服务"`

	Redis     string  `env:"SHOP_REDIS" secret:"true" group:"backends" help:"redis://[:password@]host:port/db, or rediss:// for TLS; a comma-separated list for a cluster; redis+sentinel://host:port,host:port/MASTER/db for Sentinel" zh:"redis://[:密码@]主机:端口/库号，TLS 写 rediss://；集群用逗号分隔多个地址；哨兵写 redis+sentinel://主机:端口,主机:端口/主节点名/库号"`
	SQL       string  `env:"SHOP_SQL" secret:"true" help:"user:password@tcp(host:port)/db for MySQL (?tls=true), or sqlite:/path/to/file.db" zh:"MySQL 写 用户:密码@tcp(主机:端口)/库名（?tls=true），SQLite 写 sqlite:/路径/文件.db"`
	Redlock   string  `env:"SHOP_REDLOCK" secret:"true" help:"redis:// URLs of independent masters, comma-separated, commonly five, for the mode redlock" zh:"红锁（redlock 模式）所用的相互独立的 Redis 主节点地址，逗号分隔，通常五个"`
	ZooKeeper string  `env:"SHOP_ZOOKEEPER" help:"host:port, several comma-separated, for the mode zookeeper" zh:"主机:端口，可用逗号分隔多个，供 zookeeper 模式使用"`
	Etcd      string  `env:"SHOP_ETCD" secret:"true" help:"http://[user:password@]host:port, several comma-separated, for the modes on etcd" zh:"http://[用户:密码@]主机:端口，可用逗号分隔多个，供 etcd 各模式使用"`
	Consul    string  `env:"SHOP_CONSUL" help:"http://host:port of the agent, for the mode consul" zh:"Consul agent 的 http://主机:端口，供 consul 模式使用"`
	Kafka     string  `env:"SHOP_KAFKA" help:"host:port, several comma-separated, for the mode kafka" zh:"主机:端口，可用逗号分隔多个，供 kafka 模式使用"`
	Prefix    string  `env:"SHOP_REDIS_PREFIX" envDefault:"lastitem:" help:"prefix of every key in Redis and etcd" zh:"Redis 和 etcd 中所有键的前缀"`
	Conns     int     `env:"SHOP_CONNS" envDefault:"64" help:"maximum number of connections for requests to MySQL and to each Redis server; besides these a replica opens up to 18 to MySQL and 15 to each Redis server, for group commits, pipelines, subscriptions, probes and purges" zh:"处理请求时到 MySQL 和每个 Redis 节点的最大连接数；组提交、pipeline、订阅、探测和清理另需连接，每个副本到 MySQL 最多 18 个，到每个 Redis 节点最多 15 个"`
	Missing   reasons `env:"SHOP_MISSING" help:"what GET /modes advises if a backend is missing, as JSON: {\"etcd\":\"...\"}; by default it names the variable to set" zh:"缺少后端时 GET /modes 给出的建议，JSON 格式：{\"etcd\":\"...\"}；默认提示要设置的变量"`

	WorkTimeout   time.Duration `env:"SHOP_WORK_TIMEOUT" envDefault:"5s" group:"times" help:"how long a request may take beyond its wait_ms and hold_ms; it is answered then, even if a backend hangs. Audits, and setting the stock of a product with many orders, may take up to a minute more: the time-out of a proxy in front must be longer by that" zh:"请求在 wait_ms、hold_ms 之外最多可用的时间；到时必答，无论后端是否卡住。审计，以及给订单很多的商品重设库存，最多可再用一分钟；前面代理的超时要比它长一分钟以上"`
	HealthEvery   time.Duration `env:"SHOP_HEALTH_INTERVAL" envDefault:"1s" help:"time between two health probes of a backend; a probe is a small write on its own connection; 0: no probes, every backend counts as healthy" zh:"对每个后端两次健康探测的间隔，探测在专用连接上做一次小写入；0 表示不探测，一律视为健康"`
	HealthWithin  time.Duration `env:"SHOP_HEALTH_TIMEOUT" envDefault:"900ms" help:"how long a probe may take; a backend is down after one refused probe, or two without an answer" zh:"单次探测的超时；连续两次无应答或一次被拒绝即视为不可用"`
	DialTimeout   time.Duration `env:"SHOP_DIAL_TIMEOUT" envDefault:"2s" help:"how long connecting to a backend may take" zh:"连接任一后端的超时"`
	RedisTimeout  time.Duration `env:"SHOP_REDIS_TIMEOUT" envDefault:"3s" help:"how long a Redis client waits for an answer" zh:"Redis 客户端等待应答的超时"`
	LockTimeout   time.Duration `env:"SHOP_LOCK_TIMEOUT" envDefault:"2s" help:"how long the lock engine waits for an answer of Redis; an attempt to get a lock is given up after half of it" zh:"锁引擎等待 Redis 应答的超时；一次加锁尝试等到它的一半就放弃"`
	SQLTimeout    time.Duration `env:"SHOP_SQL_TIMEOUT" envDefault:"30s" help:"how long a MySQL client waits for an answer, at least 2s; a wait for a row lock ends one second earlier" zh:"MySQL 客户端等待应答的超时，至少 2s；等待行锁会提前一秒结束"`
	SettleTimeout time.Duration `env:"SHOP_SETTLE_TIMEOUT" envDefault:"10s" help:"how long to wait for a MySQL COMMIT, and for each Redis command once a deduction has begun to write; counted from the sending" zh:"MySQL 的 COMMIT，以及 Redis 中扣减开始写入之后每条命令的等待上限，从发出时算起"`
	EtcdTimeout   time.Duration `env:"SHOP_ETCD_TIMEOUT" envDefault:"3s" help:"how long a request to the stock in etcd may take" zh:"访问 etcd 中库存的请求超时"`
	ConsulTimeout time.Duration `env:"SHOP_CONSUL_TIMEOUT" envDefault:"15s" help:"how long Consul may take to begin an answer, not counting the wait of a blocking query" zh:"Consul 开始应答的超时，不含阻塞查询本身的等待"`
	ConsulSession time.Duration `env:"SHOP_CONSUL_SESSION" envDefault:"10s" help:"TTL of the sessions of the mode consul, at least the agent's session_ttl_min (10s), at most 24h; Consul may end a session up to one TTL late" zh:"consul 模式的会话 TTL，不小于 agent 的 session_ttl_min（默认 10s），最多 24h；Consul 最多会再晚一个 TTL 才结束会话"`
	ConsulDelay   time.Duration `env:"SHOP_CONSUL_LOCK_DELAY" envDefault:"5s" help:"Consul's lock-delay: how long a key of the mode consul stays locked after its session has ended, at most 60s; below a third of the session's TTL a rival may get the key before the old holder is told" zh:"会话失效后 consul 模式的 key 继续锁住多久（即 lock-delay），最多 60s；小于会话 TTL 的三分之一时，原持有者可能还没得到通知，别人就进来了"`

	KafkaSession   time.Duration `env:"SHOP_KAFKA_SESSION" envDefault:"6s" help:"how long a consumer of the mode kafka may be silent before it counts as dead; brokers accept 6s to 30m by default" zh:"kafka 模式的消费者沉默多久即视为已死；broker 默认允许 6s 到 30m"`
	KafkaHeartbeat time.Duration `env:"SHOP_KAFKA_HEARTBEAT" envDefault:"1s" help:"time between two heartbeats of such a consumer; less than SHOP_KAFKA_SESSION" zh:"该消费者的心跳间隔，须小于 SHOP_KAFKA_SESSION"`
	KafkaRebalance time.Duration `env:"SHOP_KAFKA_REBALANCE" envDefault:"6s" help:"how long the consumer group waits for a member during a rebalance" zh:"重新分配分区时，消费者组等待一个成员的最长时间"`

	KeepKeys   time.Duration `env:"SHOP_KEEP_KEYS" envDefault:"24h" group:"retention" help:"minimum time for which the first answer to an Idempotency-Key is kept, except refusals: ten minutes at most, in Redis the last 10,000 to 20,000 of each product and none while more than half of its memory is used, in SQL the last 50,000; a key repeated later deducts again; 0: forever" zh:"Idempotency-Key 的首次应答至少保留多久，拒绝除外：最多留十分钟，Redis 里每个商品只留最近的 10,000 到 20,000 条，内存用过半就不再留，SQL 里总共只留最近的 50,000 条；之后重复该键会再次扣减；0 表示永久保留"`
	PurgeEvery time.Duration `env:"SHOP_PURGE_INTERVAL" envDefault:"1m" help:"time between two purges of older keys; every replica purges in small batches on separate connections; 0: no purges" zh:"两次清理过期键的间隔；每个副本都在专用连接上小批量执行；0 表示不清理"`

	OTLP        string `env:"OTEL_EXPORTER_OTLP_ENDPOINT" secret:"true" group:"traces" help:"collector that deductions are sent to as OpenTelemetry traces, over OTLP/HTTP: http://localhost:4318; without it there are no traces" zh:"把每次扣减作为 OpenTelemetry trace 发往这个 collector（OTLP/HTTP），如 http://localhost:4318；不设则没有 trace"`
	OTLPHeaders string `env:"OTEL_EXPORTER_OTLP_HEADERS" secret:"true" help:"HTTP headers for the collector: name=value, several comma-separated, the values percent-encoded" zh:"发往 collector 的 HTTP 头：名=值，可用逗号分隔多个，值用百分号编码"`

	LogLevel  slog.Level `env:"SHOP_LOG_LEVEL" envDefault:"info" group:"logs" help:"debug, info, warn or error" zh:"debug、info、warn 或 error"`
	LogFormat logFormat  `env:"SHOP_LOG_FORMAT" envDefault:"text" help:"text (logfmt) or json, one line per record" zh:"text（logfmt）或 json，每条一行"`

	given map[string]string // the values that flags gave, by the variable that each replaces
}

// backends is where the backends are, and how they are waited for.
func (c Config) backends(o Options) backend.Config {
	return backend.Config{
		Redis: c.Redis, SQL: c.SQL, Redlock: c.Redlock, ZooKeeper: c.ZooKeeper, Etcd: c.Etcd, Consul: c.Consul,
		Kafka: c.Kafka, KafkaDial: o.KafkaDial, Session: c.LockTTL, Prefix: c.Prefix, Conns: c.Conns,
		Patience: backend.Patience{
			Dial: c.DialTimeout, Redis: c.RedisTimeout, SQL: c.SQLTimeout, Settle: c.SettleTimeout, Etcd: c.EtcdTimeout, HTTP: c.ConsulTimeout,
		},
		Health: backend.Health{Every: c.HealthEvery, Within: c.HealthWithin}, Log: o.Log,
		Name:  func(backend string) string { return c.name("SHOP_" + strings.ToUpper(backend)) },
		Purge: backend.Purge{Every: c.PurgeEvery, Keep: c.KeepKeys},
	}
}

// servedHosts are the host names that the handler accepts; nil = any. The default is strict on loopback, since a page of any site can
// make the browser send requests to a local service (DNS rebinding).
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
	for _, x := range [][2]string{{"redlock", c.Redlock}, {"zookeeper", c.ZooKeeper}, {"etcd", c.Etcd}, {"consul", c.Consul}, {"kafka", c.Kafka}} {
		if x[1] != "" {
			all = append(all, x[0], redact.Address(x[1]))
		}
	}
	o.Log.Info("shop", append(all, "default_mode", c.DefaultMode, "lock_ttl", c.LockTTL, "admin_token", token, "version", o.Version)...)
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
	for _, name := range strings.FieldsFunc(strings.ToLower(string(text)), func(r rune) bool { return r == ',' || r == ' ' }) {
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

// reasons says why backends are missing: a JSON object by name of the backend. The program that started this process knows why.
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
