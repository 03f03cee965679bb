package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"lastitem/internal/localstack"
)

// ownServers are the servers that the user gives to a stack instead of having it start some, as addresses; "" = start one.
type ownServers struct {
	Redis, SQL                              string
	Redlock, Etcd, ZooKeeper, Consul, Kafka string
}

// ownFlags names the flags of ownServers.
var ownFlags = []string{"redis", "sql", "redlock", "etcd", "zookeeper", "consul", "kafka"}

// add declares the flags.
func (o *ownServers) add(set *pflag.FlagSet) {
	set.StringVar(&o.Redis, "redis", "", "your own Redis, as a redis:// URL")
	set.StringVar(&o.SQL, "sql", "", "your own MySQL, as user:password@tcp(host:port)/database, or sqlite:/path/file.db")
	set.StringVar(&o.Redlock, "redlock", "", "your own Redis masters for Redlock, three or more redis:// URLs, comma-separated")
	set.StringVar(&o.Etcd, "etcd", "", "your own etcd, as http://host:port, several comma-separated")
	set.StringVar(&o.ZooKeeper, "zookeeper", "", "your own ZooKeeper, as host:port, several comma-separated")
	set.StringVar(&o.Consul, "consul", "", "your own Consul, as the http://host:port of an agent")
	set.StringVar(&o.Kafka, "kafka", "", "your own Kafka, as host:port, several comma-separated")
}

// adviser returns what works for a command where a backend of its stack is missing: another --backend than kind, and the user's own
// server where the command takes one.
func adviser(command, kind string, takesOwn bool) func(backend string) string {
	return func(backend string) string {
		var ways []string
		embedded := slices.Contains([]string{localstack.Redis, localstack.MySQL, localstack.Nginx, localstack.Kafka}, backend)
		if kind == localstack.Embedded || kind == localstack.Local && embedded {
			ways = append(ways, "leave out --backend "+kind)
		}
		switch {
		case !takesOwn || backend == localstack.Nginx:
		case backend == localstack.MySQL:
			ways = append(ways, fmt.Sprintf("give a MySQL or MariaDB with 'shop %s --sql'", command))
		default:
			ways = append(ways, fmt.Sprintf("give your own with 'shop %s --%s'", command, backend))
		}
		return strings.Join(ways, ", or ")
	}
}

// options adds the servers to what a stack is to be made of.
func (o ownServers) options(s localstack.Options) localstack.Options {
	s.Redis, s.SQL = o.Redis, o.SQL
	s.Redlock, s.Etcd, s.ZooKeeper, s.Consul, s.Kafka = o.Redlock, o.Etcd, o.ZooKeeper, o.Consul, o.Kafka
	return s
}
