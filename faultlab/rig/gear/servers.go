package gear

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"lastitem/stack"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
)

// Options says what servers to start.
type Options struct {
	// Lanes is how many schemas the database gets, one for each lane.
	Lanes int
	// Only selects the stores to start: stack.Redis, and stack.MySQL or stack.Postgres; nil = Redis and MySQL.
	Only []string
	// Extras are more backends to start: stack.Redlock, stack.Etcd, ...
	Extras []string
	// Binary is the shop; "" is the running program.
	Binary string
	// Log is told what was chosen, a line at a time; nil keeps quiet.
	Log func(format string, args ...any)
}

// Servers are the private servers of a lab. All of them are real: an embedded one has no wire, or is not what the
// claims are about.
type Servers struct {
	Stack *stack.Stack
	links []link
}

// link is one server, and the variable that tells a replica about it.
type link struct {
	server string // "redis", "redlock 3"
	env    string // "SHOP_REDIS"; links of one variable are joined by commas
	url    string
	addr   string // the part of url that the proxy's address replaces
	codec  wire.Codec
}

// PostgresURL is the variable under which a launch has the URL of a PostgreSQL. The shop does not know it.
const PostgresURL = "POSTGRES_URL"

// Start starts the servers. The caller closes them.
func Start(ctx context.Context, o Options) (*Servers, error) {
	schemas := make([]string, o.Lanes)
	for i := range schemas {
		schemas[i] = schema(i)
	}
	only := o.Only
	if only == nil {
		only = []string{stack.Redis, stack.MySQL}
	}
	running, err := stack.Start(ctx, stack.Options{
		Backend: stack.Local, Only: slices.Concat(only, o.Extras),
		Schemas: schemas, Binary: o.Binary, Log: o.Log,
		// No schedule here tests durability, and a commit that waits for the disk would slow down all schedules.
		SQLConf: []string{"--innodb-flush-log-at-trx-commit=0", "--max-connections=2000"},
	})
	if err != nil {
		return nil, err
	}
	s := &Servers{Stack: running}
	s.add("SHOP_REDIS", codec.Redis, running.Redis)
	s.add("SHOP_SQL", codec.MySQL, running.SQL)
	s.add(PostgresURL, codec.Postgres, running.Postgres)
	s.add("SHOP_REDLOCK", codec.Redis, running.Redlock...)
	s.add("SHOP_ETCD", codec.GRPC, running.Etcd)
	s.add("SHOP_ZOOKEEPER", codec.ZooKeeper, running.ZooKeeper)
	s.add("SHOP_CONSUL", codec.HTTP, running.Consul)
	return s, nil
}

func (s *Servers) add(env string, codec wire.Codec, services ...stack.Service) {
	for _, x := range services {
		if x.Addr != "" {
			s.links = append(s.links, link{server: x.Name, env: env, url: x.URL, addr: x.Addr, codec: codec})
		}
	}
}

// Kinds returns the program and version of each server, by name.
func (s *Servers) Kinds() map[string]string {
	kinds := map[string]string{}
	for _, x := range []stack.Service{s.Stack.Redis, s.Stack.SQL, s.Stack.Postgres, s.Stack.Etcd, s.Stack.ZooKeeper,
		s.Stack.Consul} {
		if x.Addr != "" {
			kinds[x.Name] = x.Kind
		}
	}
	return kinds
}

// Close ends the servers, and all replicas with them.
func (s *Servers) Close() error { return s.Stack.Close() }

func schema(lane int) string { return fmt.Sprintf("lane_%d", lane) }

// at returns the URL that leads to the server through a proxy and, for a database, to the lane's schema.
func (l link) at(proxy string, lane int) string {
	to := strings.Replace(l.url, l.addr, proxy, 1)
	switch l.env {
	case "SHOP_SQL":
		before, _, _ := strings.Cut(to, ")/")
		to = before + ")/" + url.PathEscape(schema(lane))
	case PostgresURL:
		to = to[:strings.LastIndexByte(to, '/')+1] + schema(lane)
	}
	return to
}
