package replica

import (
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"lastitem/say/text"
)

// mistakes collects errors about settings.
type mistakes []error

// refuse adds an error if something is wrong.
func (m *mistakes) refuse(wrong bool, said text.Text, args ...any) {
	if wrong {
		*m = append(*m, said.Errorf(args...))
	}
}

// Validate refuses settings that cannot work; the error names each, by the flag or the variable that gave it.
func (c Config) Validate() error {
	var all mistakes
	all.refuse(c.Redis == "" && c.SQL == "", text.Of("no backend: set SHOP_REDIS or SHOP_SQL (or run 'shop up', which "+
		"starts everything)"))
	all.refuse(!listenable(c.Listen), text.Of("%s is %q, want host:port, such as 127.0.0.1:8080 or :8080"),
		c.name("SHOP_LISTEN"), c.Listen)
	all.refuse(len(c.Replica) > mostReplica, text.Of("%s is %d bytes long, want at most %d"), c.name("SHOP_REPLICA"),
		len(c.Replica), mostReplica)
	all.refuse(c.Conns < 1, text.Of("%s is %d, want at least 1"), c.name("SHOP_CONNS"), c.Conns)
	all.refuse(c.LockReplicas < 0, text.Of("%s is %d, want at least 0"), c.name("SHOP_LOCK_REPLICAS"), c.LockReplicas)
	given := map[string]string{
		"redis": c.Redis, "sql": c.SQL, "redlock": c.Redlock, "zookeeper": c.ZooKeeper, "etcd": c.Etcd, "consul": c.Consul,
		"kafka": c.Kafka,
	}
	maps.DeleteFunc(given, func(_, address string) bool { return address == "" })
	for _, name := range c.ReadyNeeds {
		all.refuse(given[name] == "", text.Of("%s names %q, want backends that are configured: %s"),
			c.name("SHOP_READY_NEEDS"), name, strings.Join(slices.Sorted(maps.Keys(given)), ","))
	}
	c.validateTimes(&all)
	c.validateTickets(&all)
	c.validateRetention(&all)
	if err := errors.Join(all...); err != nil {
		return &SettingsError{err}
	}
	return nil
}

// mostReplica is the longest name of a replica, in bytes: orders keep it in a column of so many characters, and MySQL
// refuses the sale of a longer one.
const mostReplica = 64

// noProbes stands for SHOP_HEALTH_INTERVAL=0. The zero value of the field means the default interval.
const noProbes = -1

// The longest times. Clients and servers count some of them in 32 bits of milliseconds, or in fewer seconds than a
// duration holds.
const (
	mostTime         = 24 * time.Hour
	mostPurges       = 366 * 24 * time.Hour
	mostConsulDelay  = time.Minute      // Consul accepts more, and keeps a key locked for no longer
	mostKafkaSession = 30 * time.Minute // what brokers accept by default
)

// validateTimes refuses times that are too short for anything to succeed, and those that a server would refuse or
// shorten later.
func (c Config) validateTimes(all *mistakes) {
	for _, x := range []struct {
		name               string
		value, least, most time.Duration
	}{
		{"SHOP_LOCK_TTL", c.LockTTL, 50 * time.Millisecond, mostTime}, // the least that the lock engine takes
		{"SHOP_DRAIN", c.Drain, 0, mostTime},
		{"SHOP_WORK_TIMEOUT", c.WorkTimeout, time.Millisecond, mostTime},
		{"SHOP_HEALTH_TIMEOUT", c.HealthWithin, time.Millisecond, mostTime},
		{"SHOP_DIAL_TIMEOUT", c.DialTimeout, time.Millisecond, mostTime},
		{"SHOP_REDIS_TIMEOUT", c.RedisTimeout, time.Millisecond, mostTime},
		{"SHOP_LOCK_TIMEOUT", c.LockTimeout, 2 * time.Millisecond, mostTime},
		{"SHOP_SQL_TIMEOUT", c.SQLTimeout, 2 * time.Second, mostTime},
		{"SHOP_SETTLE_TIMEOUT", c.SettleTimeout, time.Millisecond, mostTime},
		{"SHOP_ETCD_TIMEOUT", c.EtcdTimeout, time.Millisecond, mostTime},
		{"SHOP_CONSUL_TIMEOUT", c.ConsulTimeout, time.Millisecond, mostTime},
		{"SHOP_CONSUL_SESSION", c.ConsulSession, time.Second, mostTime}, // Consul's own most; its least is the agent's to set
		{"SHOP_CONSUL_LOCK_DELAY", c.ConsulDelay, time.Millisecond, mostConsulDelay},
		{"SHOP_KAFKA_SESSION", c.KafkaSession, 10 * time.Millisecond, mostKafkaSession},
		{"SHOP_KAFKA_HEARTBEAT", c.KafkaHeartbeat, time.Millisecond, mostKafkaSession},
		{"SHOP_KAFKA_REBALANCE", c.KafkaRebalance, 10 * time.Millisecond, mostTime},
	} {
		all.refuse(x.value < x.least, text.Of("%s is %s, want at least %s"), c.name(x.name), x.value, x.least)
		all.refuse(x.value > x.most, text.Of("%s is %s, want at most %s"), c.name(x.name), x.value, x.most)
	}
	all.refuse(c.RedlockGuard != 0 && (c.RedlockGuard < c.LockTTL || c.RedlockGuard > mostTime),
		text.Of("%s is %s, want 0, or %s (%s) to %s"),
		c.name("SHOP_REDLOCK_GUARD"), c.RedlockGuard, c.name("SHOP_LOCK_TTL"), c.LockTTL, mostTime)
	all.refuse(c.HealthEvery != noProbes && (c.HealthEvery < time.Millisecond || c.HealthEvery > mostTime),
		text.Of("%s is %s, want 0, or 1ms to %s"), c.name("SHOP_HEALTH_INTERVAL"), c.HealthEvery, mostTime)
	all.refuse(c.KafkaHeartbeat >= c.KafkaSession, text.Of("%s is %s, want less than %s, %s"),
		c.name("SHOP_KAFKA_HEARTBEAT"), c.KafkaHeartbeat, c.name("SHOP_KAFKA_SESSION"), c.KafkaSession)
}

// validateTickets refuses a claim that would take over what is being committed, and limits that let nothing through.
func (c Config) validateTickets(all *mistakes) {
	all.refuse(c.TicketClaim != 0 && c.TicketClaim <= c.SettleTimeout, text.Of("%s is %s, want more than %s, %s"),
		c.name("SHOP_TICKET_CLAIM"), c.TicketClaim, c.name("SHOP_SETTLE_TIMEOUT"), c.SettleTimeout)
	all.refuse(c.TicketsMost < 0, text.Of("%s is %d, want at least 1"), c.name("SHOP_TICKETS_MAX"), c.TicketsMost)
	all.refuse(c.TicketReplicas < 0, text.Of("%s is %d, want at least 0"), c.name("SHOP_TICKET_REPLICAS"),
		c.TicketReplicas)
	all.refuse(c.TicketWaiters < 0, text.Of("%s is %d, want at least 1"), c.name("SHOP_TICKET_WAITERS"), c.TicketWaiters)
}

// validateRetention refuses retention times that are out of range.
func (c Config) validateRetention(all *mistakes) {
	for _, x := range []struct {
		name  string
		value time.Duration
	}{{"SHOP_KEEP_KEYS", c.KeepKeys}, {"SHOP_PURGE_INTERVAL", c.PurgeEvery}, {"SHOP_SWEEP", c.Sweep},
		{"SHOP_RECONCILE", c.Reconcile},
		{"SHOP_KEEP_HOLDS", c.KeepReservations}} {
		all.refuse(x.value < 0 || x.value > 0 && x.value < time.Millisecond,
			text.Of("%s is %s, want 0 or at least 1ms"), c.name(x.name), x.value)
	}
	all.refuse(c.PurgeEvery > mostPurges, text.Of("%s is %s, want 0 or at most %s"), c.name("SHOP_PURGE_INTERVAL"),
		c.PurgeEvery, mostPurges)
}

// listenable says whether an address has the form of one to listen on.
func listenable(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err == nil
}
