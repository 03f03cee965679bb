package replica

import (
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"lastitem/internal/api"
)

// mistakes collects errors about settings.
type mistakes []error

// refuse adds an error if something is wrong.
func (m *mistakes) refuse(wrong bool, text api.Text, args ...any) {
	if wrong {
		*m = append(*m, text.Errorf(args...))
	}
}

// Validate refuses settings that cannot work; the error names each, by the flag or the variable that gave it.
func (c Config) Validate() error {
	var all mistakes
	all.refuse(c.Redis == "" && c.SQL == "", api.Text{En: "no backend: set SHOP_REDIS or SHOP_SQL (or run 'shop up', which starts everything)", Zh: "没有后端：请设置 SHOP_REDIS 或 SHOP_SQL（或运行 'shop up'，一次起好所有服务）"})
	all.refuse(!listenable(c.Listen), api.Text{En: "%s is %q, want host:port, such as 127.0.0.1:8080 or :8080", Zh: "%s 为 %q，应为 主机:端口，如 127.0.0.1:8080 或 :8080"}, c.name("SHOP_LISTEN"), c.Listen)
	all.refuse(len(c.Replica) > mostReplica, api.Text{En: "%s is %d bytes long, want at most %d", Zh: "%s 长 %d 字节，应至多 %d 字节"}, c.name("SHOP_REPLICA"), len(c.Replica), mostReplica)
	all.refuse(c.Conns < 1, api.Text{En: "%s is %d, want at least 1", Zh: "%s 为 %d，应至少为 1"}, c.name("SHOP_CONNS"), c.Conns)
	all.refuse(c.LockReplicas < 0, api.Text{En: "%s is %d, want at least 0", Zh: "%s 为 %d，应至少为 0"}, c.name("SHOP_LOCK_REPLICAS"), c.LockReplicas)
	given := map[string]string{
		"redis": c.Redis, "sql": c.SQL, "redlock": c.Redlock, "zookeeper": c.ZooKeeper, "etcd": c.Etcd, "consul": c.Consul, "kafka": c.Kafka,
	}
	maps.DeleteFunc(given, func(_, address string) bool { return address == "" })
	for _, name := range c.ReadyNeeds {
		all.refuse(given[name] == "", api.Text{
			En: "%s names %q, want backends that are configured: %s", Zh: "%s 里的 %q 不是已配置的后端，应为：%s",
		}, c.name("SHOP_READY_NEEDS"), name, strings.Join(slices.Sorted(maps.Keys(given)), ","))
	}
	c.validateTimes(&all)
	c.validateRetention(&all)
	if err := errors.Join(all...); err != nil {
		return &SettingsError{err}
	}
	return nil
}

// mostReplica is the longest name of a replica, in bytes: orders keep it in a column of so many characters, and MySQL refuses the sale of a
// longer one.
const mostReplica = 64

// noProbes stands for SHOP_HEALTH_INTERVAL=0. The zero value of the field means the default interval.
const noProbes = -1

// The longest times. Clients and servers count some of them in 32 bits of milliseconds, or in fewer seconds than a duration holds.
const (
	mostTime         = 24 * time.Hour
	mostPurges       = 366 * 24 * time.Hour
	mostConsulDelay  = time.Minute      // Consul accepts more, and keeps a key locked for no longer
	mostKafkaSession = 30 * time.Minute // what brokers accept by default
)

// validateTimes refuses times that are too short for anything to succeed, and those that a server would refuse or shorten later.
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
		all.refuse(x.value < x.least, api.Text{En: "%s is %s, want at least %s", Zh: "%s 为 %s，应至少为 %s"}, c.name(x.name), x.value, x.least)
		all.refuse(x.value > x.most, api.Text{En: "%s is %s, want at most %s", Zh: "%s 为 %s，应至多为 %s"}, c.name(x.name), x.value, x.most)
	}
	all.refuse(c.RedlockGuard != 0 && (c.RedlockGuard < c.LockTTL || c.RedlockGuard > mostTime),
		api.Text{En: "%s is %s, want 0, or %s (%s) to %s", Zh: "%s 为 %s，应为 0，或在 %s（%s）与 %s 之间"},
		c.name("SHOP_REDLOCK_GUARD"), c.RedlockGuard, c.name("SHOP_LOCK_TTL"), c.LockTTL, mostTime)
	all.refuse(c.HealthEvery != noProbes && (c.HealthEvery < time.Millisecond || c.HealthEvery > mostTime),
		api.Text{En: "%s is %s, want 0, or 1ms to %s", Zh: "%s 为 %s，应为 0，或在 1ms 与 %s 之间"}, c.name("SHOP_HEALTH_INTERVAL"), c.HealthEvery, mostTime)
	all.refuse(c.KafkaHeartbeat >= c.KafkaSession, api.Text{En: "%s is %s, want less than %s, %s", Zh: "%s 为 %s，应小于 %s，即 %s"},
		c.name("SHOP_KAFKA_HEARTBEAT"), c.KafkaHeartbeat, c.name("SHOP_KAFKA_SESSION"), c.KafkaSession)
}

// validateRetention refuses retention times that are out of range.
func (c Config) validateRetention(all *mistakes) {
	for _, x := range []struct {
		name  string
		value time.Duration
	}{{"SHOP_KEEP_KEYS", c.KeepKeys}, {"SHOP_PURGE_INTERVAL", c.PurgeEvery}} {
		all.refuse(x.value < 0 || x.value > 0 && x.value < time.Millisecond,
			api.Text{En: "%s is %s, want 0 or at least 1ms", Zh: "%s 为 %s，应为 0 或至少 1ms"}, c.name(x.name), x.value)
	}
	all.refuse(c.PurgeEvery > mostPurges, api.Text{En: "%s is %s, want 0 or at most %s", Zh: "%s 为 %s，应为 0 或至多 %s"}, c.name("SHOP_PURGE_INTERVAL"), c.PurgeEvery, mostPurges)
}

// listenable says whether an address has the form of one to listen on.
func listenable(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err == nil
}
