package stack

// The values of Options.Backend.
const (
	Auto     = "auto"     // a real server where its program is found, else an embedded one
	Embedded = "embedded" // embedded ones only: needs nothing but the binary
	Local    = "local"    // real servers only: a missing program is an error
)

// The backends of Options.Only.
const (
	Redis = "redis"
	MySQL = "mysql" // or what speaks its protocol; embedded, it is SQLite
	// Postgres is for services that are not the shop; there is no embedded one.
	Postgres = "postgres"
	Nginx    = "nginx"

	// The extras, each for a few modes only.
	Redlock   = "redlock" // five Redis masters that know nothing of each other
	Etcd      = "etcd"
	ZooKeeper = "zookeeper"
	Consul    = "consul"
	Kafka     = "kafka" // embedded where Java or the broker's jars are missing
)

// EnvBinary names the shop binary where the running program is not it; see Options.Binary.
const EnvBinary = "SHOP_BINARY"

// Service is one running part.
type Service struct {
	Name string `json:"name"` // "redis", "sql", "replica 1", "balancer"
	Kind string `json:"kind"` // for people: "redis-server 7.0.15", "embedded SQLite", "given"
	Addr string `json:"addr"` // host:port; "" where there is none, as for SQLite, or it is not ours
	URL  string `json:"url"`  // what a client wants: redis://..., the DSN, http://...
	PID  int    `json:"pid"`  // 0 where the part is no process of ours
}

// extras are the backends that only a few modes need. Except for Kafka there are no embedded ones.
var extras = []string{Redlock, Etcd, ZooKeeper, Consul, Kafka}

// Extra is a backend that only a few modes need: one service, or the nodes of a Redlock.
type Extra struct {
	Name     string // Redlock, Etcd, ...
	Services []Service
}

// given describes a server of the user's own, without its password.
func given(name, url string) Service {
	return Service{Name: name, Kind: "given", URL: url}
}
