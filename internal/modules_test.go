package internal_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// modules says which third-party modules each package may import. Every test may also import what the line inTests
// lists: comparisons, and the clients with which tests look at servers directly.
var modules = map[string][]string{
	"cmd/shop":     {"github.com/spf13/cobra", "github.com/spf13/pflag"},
	"internal/cli": {"github.com/spf13/cobra", "github.com/spf13/pflag"},

	"examples/gorm": {"gorm.io/driver/mysql", "gorm.io/gorm"}, // listings for users of gorm
	// services that the lab is tried on
	"examples/front":  {"github.com/google/uuid", "github.com/redis/go-redis/v9"},
	"examples/thirty": {"github.com/go-sql-driver/mysql", "github.com/google/uuid", "github.com/redis/go-redis/v9"},
	// listings for everybody else
	"examples/plain": {"github.com/go-sql-driver/mysql", "github.com/redis/go-redis/v9", "go.etcd.io/etcd/client/v3"},

	"internal/backend": {
		"github.com/go-sql-driver/mysql", "github.com/go-zookeeper/zk", "github.com/google/uuid",
		"github.com/hashicorp/consul/api", "github.com/redis/go-redis/v9", "github.com/twmb/franz-go",
		"github.com/twmb/franz-go/pkg/kadm",
		"go.etcd.io/etcd/client/v3", "go.uber.org/zap", "google.golang.org/grpc", "gorm.io/driver/mysql",
		"gorm.io/gorm",
	},
	"console":    {"github.com/yuin/goldmark"},
	"say/report": {"golang.org/x/term", "golang.org/x/text"},
	// no client of a store or a lock
	"internal/handler":       {"github.com/gin-gonic/gin", "github.com/prometheus/client_golang"},
	"internal/handler/input": {"github.com/go-json-experiment/json"},
	"internal/idempotency":   {"github.com/redis/go-redis/v9"},
	"internal/shop/kafka":    {"github.com/google/uuid", "github.com/twmb/franz-go", "github.com/twmb/franz-go/pkg/kmsg"},
	"internal/guest": {
		"github.com/go-zookeeper/zk", "github.com/hashicorp/consul/api", "github.com/redis/go-redis/v9",
		"go.etcd.io/etcd/client/v3",
	},
	"stack": {"github.com/alicebob/miniredis/v2", "github.com/twmb/franz-go/pkg/kfake"},
	"internal/replica": {
		"github.com/caarlos0/env/v11", "github.com/prometheus/client_golang", "go.opentelemetry.io/otel",
		"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/trace", "go.opentelemetry.io/proto/slim/otlp",
		"golang.org/x/net", "golang.org/x/sys", "google.golang.org/protobuf",
	},
	"internal/redisbatch": {"github.com/redis/go-redis/v9"},
	"internal/shop":       {"github.com/google/uuid", "github.com/twmb/franz-go"},
	// the only one that knows the driver
	"internal/sqlite":        {"gorm.io/gorm", "modernc.org/sqlite"},
	"internal/stock":         {"github.com/google/uuid", "github.com/redis/go-redis/v9"}, // never gin
	"internal/store/etcddb":  {"go.etcd.io/etcd/api/v3", "go.etcd.io/etcd/client/v3", "google.golang.org/grpc"},
	"internal/store/redisdb": {"github.com/redis/go-redis/v9"},
	"internal/store/sqldb":   {"github.com/go-sql-driver/mysql", "gorm.io/gorm"},
	"faultlab/trace":         {"github.com/go-sql-driver/mysql", "github.com/redis/go-redis/v9", "gorm.io/gorm"},
	"stack/engine":           {"github.com/go-sql-driver/mysql", "github.com/redis/go-redis/v9"},
	"stack/wire":             {"golang.org/x/sys"},
	"stack/wire/codec":       {"github.com/jackc/pgx/v5", "go.etcd.io/etcd/api/v3", "golang.org/x/net"},

	// A package that imports the contract of locks, internal/lock, does not get a client with it.
	"internal/lock/coord": {
		"github.com/go-zookeeper/zk", "github.com/hashicorp/consul/api", "go.etcd.io/etcd/api/v3",
		"go.etcd.io/etcd/client/v3",
	},
	"internal/lock/handoff":  {"github.com/redis/go-redis/v9"},
	"internal/lock":          {"github.com/google/uuid"},
	"internal/lock/sqllock":  {"github.com/go-sql-driver/mysql", "gorm.io/gorm"},
	"internal/lock/textbook": {"github.com/redis/go-redis/v9"},

	"faultlab/rig/gear": {"github.com/go-sql-driver/mysql", "github.com/redis/go-redis/v9"},
	"loadtest":          {"github.com/HdrHistogram/hdrhistogram-go", "github.com/google/uuid"},
	"loadtest/client":   {"github.com/go-resty/resty/v2", "github.com/google/uuid"},
	"target": {"github.com/go-json-experiment/json", "github.com/go-sql-driver/mysql", "github.com/google/uuid",
		"github.com/jackc/pgx/v5", "github.com/redis/go-redis/v9"},
	"target/shopfile": {"github.com/goccy/go-yaml"},

	"testkit/locktest": {
		"github.com/alicebob/miniredis/v2", "github.com/redis/go-redis/v9", "go.uber.org/goleak",
	},
	"testkit": {"github.com/google/go-cmp"},
	"testkit/habits/server": {"github.com/go-sql-driver/mysql", "github.com/google/uuid",
		"github.com/redis/go-redis/v9"},
	"testkit/habits/postgres": {"github.com/jackc/pgx/v5"},
	"testkit/storetest":       {"github.com/google/go-cmp"},
	"testkit/reservationtest": {"github.com/google/uuid"},
	"testkit/stocktest":       {"github.com/google/go-cmp", "github.com/google/uuid", "go.etcd.io/etcd/client/v3"},
	"testkit/testenv": {
		"github.com/go-sql-driver/mysql", "github.com/go-zookeeper/zk", "github.com/hashicorp/consul/api",
		"github.com/jackc/pgx/v5", "github.com/redis/go-redis/v9", "github.com/twmb/franz-go/pkg/kfake",
		"go.etcd.io/etcd/client/v3", "go.uber.org/goleak", "go.uber.org/zap", "google.golang.org/grpc",
	},

	inTests: {
		"github.com/chromedp/cdproto", "github.com/chromedp/chromedp",
		"github.com/alicebob/miniredis/v2", "github.com/getkin/kin-openapi",
		"github.com/go-json-experiment/json", "github.com/go-sql-driver/mysql", "github.com/go-zookeeper/zk",
		"github.com/goccy/go-yaml", "github.com/google/go-cmp", "github.com/google/uuid", "github.com/hashicorp/consul/api",
		"github.com/redis/go-redis/v9", "github.com/twmb/franz-go",
		"github.com/twmb/franz-go/pkg/kadm", "github.com/twmb/franz-go/pkg/kmsg",
		"go.etcd.io/etcd/api/v3", "go.etcd.io/etcd/client/v3", "go.uber.org/goleak", "go.uber.org/zap", "golang.org/x/net",
		"golang.org/x/sys",
		"go.opentelemetry.io/proto/slim/otlp", "google.golang.org/protobuf",
		"google.golang.org/grpc", "gorm.io/gorm", "pgregory.net/rapid",
	},
}

// inTests is the line of modules for all tests.
const inTests = "tests"

// banned are packages of the standard library that a package must not import outside of its tests.
var banned = map[string][]string{"internal/handler": {"database/sql"}, "internal/handler/events": {"database/sql"},
	"internal/handler/input": {"database/sql"}}

// mayImportModule says whether a package may import what is not ours.
func mayImportModule(dir, imported string, isTest bool) bool {
	if !third(imported) {
		return isTest || !slices.Contains(banned[dir], imported)
	}
	m := moduleOf(imported)
	return slices.Contains(modules[dir], m) || isTest && slices.Contains(modules[inTests], m)
}

// third says whether an import is of another module: only there does the first element have a dot.
func third(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return strings.Contains(first, ".")
}

// user is the line of the table that permits an import: that of the package, or, for a test, inTests.
func user(name, imported string) string {
	dir := name[:max(0, strings.LastIndexByte(name, '/'))]
	if strings.HasSuffix(name, "_test.go") && slices.Contains(modules[inTests], moduleOf(imported)) {
		return inTests
	}
	return dir
}

// required are the modules of go.mod.
var required = sync.OnceValue(func() (all []string) {
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		panic(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v`).FindAllSubmatch(text, -1) {
		all = append(all, string(m[1]))
	}
	return all
})

// moduleOf is the module of a package: the longest one of go.mod that its path begins with, or itself if there is none.
func moduleOf(imported string) string {
	module := ""
	for _, m := range required() {
		if (imported == m || strings.HasPrefix(imported, m+"/")) && len(m) > len(module) {
			module = m
		}
	}
	if module == "" {
		return imported
	}
	return module
}
