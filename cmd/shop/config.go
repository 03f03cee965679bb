package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/caarlos0/env/v11"

	"lastitem/internal/backend"
	"lastitem/internal/stock"
)

// config is what a replica is told by its environment. It is read (readConfig), defaulted by its tags, and validated
// (validate); flags of the command may override single fields in between.
type config struct {
	Listen      string        `env:"SHOP_LISTEN" envDefault:"127.0.0.1:8080"`
	Replica     string        `env:"SHOP_REPLICA" envDefault:"1"`
	Redis       string        `env:"SHOP_REDIS"`
	SQL         string        `env:"SHOP_SQL"`
	Redlock     string        `env:"SHOP_REDLOCK"`
	ZooKeeper   string        `env:"SHOP_ZOOKEEPER"`
	Etcd        string        `env:"SHOP_ETCD"`
	Consul      string        `env:"SHOP_CONSUL"`
	Kafka       string        `env:"SHOP_KAFKA"`
	Token       string        `env:"SHOP_ADMIN_TOKEN"`
	DefaultMode string        `env:"SHOP_DEFAULT_MODE" envDefault:"lease-seq"`
	Prefix      string        `env:"SHOP_REDIS_PREFIX" envDefault:"lastitem:"`
	LockTTL     time.Duration `env:"SHOP_LOCK_TTL" envDefault:"10s"`
	Missing     reasons       `env:"SHOP_MISSING"`
	Conns       int           `env:"SHOP_CONNS" envDefault:"64"`
	Drain       time.Duration `env:"SHOP_DRAIN" envDefault:"0s"`
	LogLevel    slog.Level    `env:"SHOP_LOG_LEVEL" envDefault:"info"`
}

const configHelp = `
Environment:
  SHOP_LISTEN         address to listen on (127.0.0.1:8080)
  SHOP_REPLICA        name of this replica, in X-Replica and on its orders (1)
  SHOP_REDIS          redis://[:password@]host:port/db; several, comma-separated, for a cluster
  SHOP_SQL            user:password@tcp(host:port)/db for MySQL, or sqlite:/path/to/file.db
  SHOP_REDLOCK        redis:// URLs of independent masters, comma-separated, commonly five, for the mode redlock
  SHOP_ZOOKEEPER      host:port, several comma-separated, for the mode zookeeper
  SHOP_ETCD           http://host:port, several comma-separated, for the modes on etcd
  SHOP_CONSUL         http://host:port of the agent, for the mode consul
  SHOP_KAFKA          host:port, several comma-separated, for the mode kafka
  SHOP_ADMIN_TOKEN    bearer token of the routes that set stock; without it they answer 401
  SHOP_DEFAULT_MODE   mode behind POST /deduct_stock (lease-seq)
  SHOP_REDIS_PREFIX   begins every key in Redis and etcd (lastitem:)
  SHOP_LOCK_TTL       expiry of locks that have one (10s)
  SHOP_MISSING        what GET /modes advises where a backend is missing, as JSON: {"etcd":"..."} (to set its variable)
  SHOP_CONNS          connections to each backend, at most (64)
  SHOP_DRAIN          how long to go on answering, not ready, before shutting down (0s)
  SHOP_LOG_LEVEL      debug, info, warn, error (info)`

// reasons says why backends are missing, by their names, as JSON: whoever started this process knows better than it does.
type reasons map[stock.Backend]string

// UnmarshalText reads JSON.
func (r *reasons) UnmarshalText(text []byte) error {
	return json.Unmarshal(text, (*map[stock.Backend]string)(r))
}

func readConfig() (config, error) {
	var c config
	if err := env.Parse(&c); err != nil {
		return c, usage("%v", err)
	}
	return c, nil
}

func (c config) validate() error {
	var errs []error
	if c.Redis == "" && c.SQL == "" {
		errs = append(errs, errors.New("no backend: set SHOP_REDIS or SHOP_SQL (or run 'shop up', which starts everything)"))
	}
	if c.LockTTL < 50*time.Millisecond { // the least that the lock engine takes
		errs = append(errs, fmt.Errorf("SHOP_LOCK_TTL is %s, want at least 50ms", c.LockTTL))
	}
	if c.Conns < 1 {
		errs = append(errs, fmt.Errorf("SHOP_CONNS is %d, want at least 1", c.Conns))
	}
	if c.Drain < 0 {
		errs = append(errs, fmt.Errorf("SHOP_DRAIN is %s, want 0 or more", c.Drain))
	}
	if err := errors.Join(errs...); err != nil {
		return usage("%v", err)
	}
	return nil
}

// log prints the configuration once, secrets masked.
func (c config) log(l *slog.Logger) {
	token := "unset: stock cannot be set over HTTP"
	if c.Token != "" {
		token = "set"
	}
	l.Info("shop", "listen", c.Listen, "replica", c.Replica, "redis", backend.Redact(c.Redis), "sql", backend.Redact(c.SQL),
		"default_mode", c.DefaultMode, "lock_ttl", c.LockTTL, "admin_token", token, "version", version())
}

func newLogger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}
