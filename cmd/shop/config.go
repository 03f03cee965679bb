package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
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

	kafkaDial func(ctx context.Context, network, address string) (net.Conn, error) // of 'shop trace'; see backend.Config
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
	err := env.Parse(&c)
	var all env.AggregateError
	if !errors.As(err, &all) {
		return c, err
	}
	errs := make([]error, len(all.Errors))
	for i, err := range all.Errors {
		errs[i] = unreadable(err)
	}
	return c, usage("%v", errors.Join(errs...))
}

// unreadable says of a variable that cannot be read what it is and should be; the error of package env knows the field only.
func unreadable(err error) error {
	var e env.ParseError
	if !errors.As(err, &e) {
		return err
	}
	field, _ := reflect.TypeFor[config]().FieldByName(e.Name)
	name := field.Tag.Get("env")
	return fmt.Errorf("%s is %q, want %s", name, os.Getenv(name), wanted(e.Type.String(), e.Err))
}

// wanted says what a value of a type looks like, by the type's name in Go or among the flags, where err came of reading it.
func wanted(kind string, err error) string {
	if errors.Is(err, strconv.ErrRange) {
		return "a number that fits into 64 bits"
	}
	switch kind {
	case "time.Duration", "duration":
		return "a duration with its unit, such as 10s or 500ms"
	case "int", "int64", "uint64":
		return "a whole number"
	case "float64":
		return "a number"
	case "bool":
		return "true or false"
	case "intSlice":
		return "whole numbers, separated by commas"
	case "slog.Level":
		return "debug, info, warn or error"
	}
	return `JSON, such as {"etcd":"start one"}`
}

// variable names the setting that holds the address of a backend.
func variable(backend string) string { return "SHOP_" + strings.ToUpper(backend) }

func (c config) validate() error {
	var errs []error
	if c.Redis == "" && c.SQL == "" {
		errs = append(errs, errors.New("no backend: set SHOP_REDIS or SHOP_SQL (or run 'shop up', which starts everything)"))
	}
	if !listenable(c.Listen) {
		errs = append(errs, fmt.Errorf("SHOP_LISTEN (or --listen) is %q, want host:port, such as 127.0.0.1:8080 or :8080", c.Listen))
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

// listenable says whether an address has the form of one to listen on.
func listenable(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err == nil
}

// log prints the configuration once, secrets masked.
func (c config) log(l *slog.Logger) {
	token := "unset: stock cannot be set over HTTP"
	if c.Token != "" {
		token = "set"
	}
	all := []any{"listen", c.Listen, "replica", c.Replica, "redis", backend.Redact(c.Redis), "sql", backend.Redact(c.SQL)}
	for _, x := range [][2]string{
		{"redlock", redactList(c.Redlock)}, {"zookeeper", c.ZooKeeper}, {"etcd", redactList(c.Etcd)}, {"consul", backend.Redact(c.Consul)},
		{"kafka", c.Kafka},
	} {
		if x[1] != "" {
			all = append(all, x[0], x[1])
		}
	}
	l.Info("shop", append(all, "default_mode", c.DefaultMode, "lock_ttl", c.LockTTL, "admin_token", token, "version", version())...)
}

func newLogger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}
