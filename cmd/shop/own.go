package main

import (
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

// options adds the servers to what a stack is to be made of.
func (o ownServers) options(s localstack.Options) localstack.Options {
	s.Redis, s.SQL = o.Redis, o.SQL
	s.Redlock, s.Etcd, s.ZooKeeper, s.Consul, s.Kafka = o.Redlock, o.Etcd, o.ZooKeeper, o.Consul, o.Kafka
	return s
}
