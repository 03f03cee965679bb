package shop

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"lastitem/internal/shop/kafka"
	"lastitem/internal/stock"
	"lastitem/internal/store"
	"lastitem/internal/store/etcddb"
	"lastitem/internal/store/redisdb"
	"lastitem/internal/store/sqldb"
)

// Backends are the stores and services that a shop uses. A nil field makes the modes that need it unavailable.
type Backends struct {
	// The stores.
	Redis *redisdb.Store
	SQL   *sqldb.Store
	Etcd  *etcddb.Store // on the same server as the lockers' Etcd
	// Lockers are the services that locks are taken from. Their Prefix is also that of Kafka's topics and group.
	Lockers stock.Lockers
	// Kafka makes a client of the brokers, which the caller closes.
	Kafka      func(...kgo.Opt) (*kgo.Client, error)
	KafkaGroup kafka.Group
	// Missing explains why a backend is missing and what to do, if setting a variable is not the remedy.
	Missing map[stock.Backend]string
	// Check says why a backend cannot be used right now, nil when it can. It answers from a cache, without waiting. Down
	// is like Check, but returns nil as long as the backend's health is unknown: requests that need a backend which is
	// down fail at once. In a cluster it asks about the masters of the products.
	Check func(stock.Backend) error
	Down  func(b stock.Backend, products ...int64) error
	// Ask probes a backend now; nil = no backend is ever probed.
	Ask func(context.Context, stock.Backend) error
}

func (b Backends) configured(needs []stock.Backend) error {
	for _, n := range needs {
		if err := b.has(n); err != nil {
			return err
		}
	}
	return nil
}

// has says why a backend is not configured, nil when it is.
func (b Backends) has(need stock.Backend) error {
	var missing bool
	var what, advice string
	switch need {
	case stock.NeedRedis:
		missing, what, advice = b.Redis == nil, "no Redis configured", "set SHOP_REDIS"
	case stock.NeedSQL:
		missing, what, advice = b.SQL == nil, "no SQL database configured", "set SHOP_SQL"
	case stock.NeedMySQL:
		missing, what, advice = b.SQL == nil || !b.SQL.MySQL(), "its lesson needs InnoDB",
			"set SHOP_SQL to a MySQL or MariaDB server"
	case stock.NeedRedlock:
		missing, what = b.Lockers.Redlock == nil, "no Redlock nodes configured"
		advice = "set SHOP_REDLOCK to the URLs of five independent Redis masters"
	case stock.NeedZooKeeper:
		missing, what, advice = b.Lockers.ZooKeeper == nil, "no ZooKeeper configured", "set SHOP_ZOOKEEPER"
	case stock.NeedEtcd:
		missing, what, advice = b.Lockers.Etcd == nil, "no etcd configured", "set SHOP_ETCD"
	case stock.NeedConsul:
		missing, what, advice = b.Lockers.Consul == nil, "no Consul configured", "set SHOP_CONSUL"
	case stock.NeedKafka:
		missing, what, advice = b.Kafka == nil, "no Kafka configured", "set SHOP_KAFKA"
	default:
		missing, what, advice = true, "unknown backend "+string(need), "this is a defect of the mode"
	}
	if missing {
		return fmt.Errorf("%s: %s", what, cmp.Or(b.Missing[need], advice))
	}
	return nil
}

// keeps says why no count can be kept in a store, nil where it can.
func (b Backends) keeps(at stock.Store) error {
	if at == "" {
		return nil
	}
	return b.has(at.Backend())
}

// down returns an error if one of these backends is known to be down for the products, so that a request fails at once
// and sends nothing.
func (b Backends) down(products []int64, needs ...stock.Backend) error {
	for _, n := range needs {
		if b.Down == nil {
			break
		}
		if err := b.Down(n, products...); err != nil {
			return &stock.NotReadyError{Why: fmt.Sprintf("%s: %v", n, err), Err: err}
		}
	}
	return nil
}

// silent is down for requests that only read, or repair: a backend that refuses writes still answers them.
func (b Backends) silent(s stock.Store, product int64) error {
	if err := b.down([]int64{product}, s.Backend()); err != nil && !errors.Is(err, store.ErrRefused) {
		return err
	}
	return nil
}

// refusal says of an error that means "nothing happened" whether a server has refused.
func refusal(err error) error {
	if errors.Is(err, stock.ErrUnavailable) || errors.Is(err, stock.ErrLockUnavailable) {
		if kind := cmp.Or(sqldb.Refusal(err), redisdb.Refusal(err)); kind != nil {
			return fmt.Errorf("%w: %w", kind, err)
		}
	}
	return err
}
