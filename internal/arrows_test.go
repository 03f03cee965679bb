// Package internal_test keeps the arrows between the packages: who may import whom, and who may dial.
package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lastitem/testkit"
)

const module = "lastitem"

// arrows says for every package of ours which others of ours it may import. A package that is not listed here fails the
// test: decide on its arrows first. A folder below a listed one needs a line of its own.
var arrows = map[string][]string{
	"cmd/shop": {"*"},

	// The ground: what crosses the wire, what a row is, and what the program says to people.
	"contract/api":    {"say/text"},
	"contract/ledger": {},
	"say/redact":      {},
	"say/report":      {},
	"say/text":        {},

	// The judge, and those who ask it.
	"judge":           {"contract/api", "contract/ledger", "say/text"},
	"target":          {"contract/api", "judge", "say/redact", "say/text"}, // a service as a client sees it
	"target/shopfile": {"say/text", "target"},                              // shop.yaml
	"loadtest":        {"contract/api", "judge", "loadtest/client", "loadtest/follow", "loadtest/plan", "say/text", "target"},
	"loadtest/follow": {"contract/api", "judge"},
	"loadtest/client": {"contract/api", "judge", "loadtest/plan", "say/text", "target"},
	"loadtest/compare": {
		"contract/api", "judge", "loadtest", "loadtest/client", "loadtest/plan", "say/text", "target",
	},
	"loadtest/failover": {
		"contract/api", "judge", "loadtest", "loadtest/compare", "loadtest/plan", "say/report", "say/text",
	},
	"loadtest/postmortem": {"contract/api", "judge", "say/text", "target"}, // a run that nobody has made
	"loadtest/plan":       {"contract/api", "say/text"},                    // it knows no service and no result
	"loadtest/report": {
		"contract/api", "judge", "loadtest", "loadtest/client", "loadtest/compare", "loadtest/plan", "say/report", "say/text",
	},
	"faultlab": {
		"contract/api", "faultlab/fault", "faultlab/rig", "faultlab/rig/gear", "judge", "say/text", "stack", "target",
	},
	"faultlab/fault": {
		"contract/api", "faultlab/rig", "faultlab/rig/gear", "judge", "say/text", "stack", "stack/wire",
	},
	"faultlab/rig": {
		"contract/api", "faultlab/rig/gear", "judge", "say/text", "stack", "stack/wire", "stack/wire/codec", "target",
	},
	"faultlab/rig/gear": {"stack", "stack/wire", "stack/wire/codec", "target"}, // it knows no schedule
	"faultlab/stepper": {
		"contract/api", "faultlab/rig", "faultlab/rig/gear", "say/text", "stack", "stack/wire", "target",
	},
	"faultlab/tell": {"contract/api", "faultlab", "faultlab/fault", "faultlab/rig", "say/report", "say/text", "target"},
	"faultlab/trace": {
		"contract/api", "internal/backend", "internal/replica", "internal/step", "internal/stock", "say/report", "say/text",
		"stack", "stack/wire", "stack/wire/codec", "target",
	},
	"stack":            {"contract/api", "say/redact", "say/text", "stack/keeper", "stack/postgres", "stack/wire"},
	"stack/engine":     {"say/text", "stack", "stack/wire"}, // servers that take over from each other
	"stack/postgres":   {"stack/keeper"},
	"stack/keeper":     {"say/text"},
	"stack/wire":       {},
	"stack/wire/codec": {"stack/wire"},           // the proxies do not know the protocols
	"console":          {"contract/api", "docs"}, // it makes no run itself: cmd/shop gives it a driver
	"console/web":      {"contract/api"},

	"internal/cli": {"say/redact", "say/report", "say/text"}, // it knows nothing of shops

	// The shop.
	"internal/backend": {
		"internal/sqlite", "internal/store", "internal/store/etcddb", "internal/store/redisdb", "internal/store/sqldb",
		"migrations", "say/redact", "say/text",
	},
	"internal/guest": {"internal/backend", "say/redact", "say/text", "stack"},
	"internal/handler": {
		"contract/api", "contract/ledger", "internal/handler/events", "internal/handler/input", "internal/idempotency",
		"internal/shop", "internal/step", "internal/stock", "judge", "say/text",
	},
	"internal/handler/events": {"contract/api", "contract/ledger", "internal/step"},
	"internal/handler/input":  {"contract/api", "contract/ledger", "internal/shop", "internal/stock"},
	"internal/idempotency":    {"internal/lock"},
	"internal/redisbatch":     {},
	"internal/replica": {
		"contract/api", "internal/backend", "internal/handler", "internal/idempotency", "internal/lock/coord",
		"internal/lock/handoff", "internal/lock/textbook", "internal/shop", "internal/shop/kafka", "internal/step",
		"internal/stock", "say/redact", "say/text", "stack",
	},
	"internal/shop": {
		"contract/ledger", "internal/idempotency", "internal/lock", "internal/lock/handoff", "internal/shop/kafka",
		"internal/shop/tickets", "internal/step", "internal/stock", "internal/store", "internal/store/etcddb",
		"internal/store/redisdb", "internal/store/sqldb",
	},
	"internal/shop/kafka":   {"contract/ledger", "internal/idempotency", "internal/step", "internal/stock"},
	"internal/shop/tickets": {"contract/ledger", "internal/stock", "internal/store/redisdb", "internal/store/sqldb"},
	"internal/sqlite":       {},
	"internal/step":         {},
	"internal/stock": {
		"contract/api", "contract/ledger", "docs", "internal/idempotency", "internal/lock", "internal/lock/coord",
		"internal/lock/handoff", "internal/lock/sqllock", "internal/lock/textbook", "internal/step", "internal/store",
		"internal/store/etcddb", "internal/store/redisdb", "internal/store/sqldb", "say/text",
	},
	"internal/stock/pages":   {"contract/api", "docs", "internal/stock", "say/text"},
	"internal/store":         {"contract/ledger"}, // the ground of the three databases, none of which knows another
	"internal/store/etcddb":  {"contract/ledger", "internal/idempotency", "internal/store"},
	"internal/store/redisdb": {"contract/ledger", "internal/idempotency", "internal/redisbatch", "internal/store"},
	"internal/store/sqldb":   {"contract/ledger", "internal/idempotency", "internal/sqlite", "internal/store"},
	"migrations":             {},
	"docs":                   {"contract/api", "internal/stock", "internal/stock/pages", "say/report", "say/text"},

	// The kinds of locks. None of them imports another.
	"internal/lock":          {"internal/step"},
	"internal/lock/coord":    {"internal/lock", "internal/step"},
	"internal/lock/handoff":  {"internal/lock", "internal/redisbatch", "internal/step"},
	"internal/lock/sqllock":  {"internal/lock", "internal/sqlite", "internal/step"},
	"internal/lock/textbook": {"internal/lock", "internal/step"},

	// Examples, and tests only; see testOnly. newmode is a command for people who add a mode, chaos runs the engine in
	// several processes, and writeups has listings from other people's write-ups.
	"deploy":                  {"internal/handler"},
	"examples/front":          {},
	"examples/gorm":           {},
	"examples/payment":        {"internal/replica"},
	"examples/plain":          {"internal/lock", "internal/lock/textbook"},
	"examples/thirty":         {},
	"internal":                {"docs"},
	"internal/stock/newmode":  {"internal/stock"},
	"internal/writeups":       {"internal/lock", "internal/lock/handoff", "internal/lock/textbook"},
	"testkit":                 {},
	"testkit/chaos":           {"internal/lock", "internal/lock/handoff"},
	"testkit/doctest":         {},
	"testkit/fakeshop":        {"contract/api"},
	"testkit/habits":          {}, // shops of others, as the verdicts on them see them
	"testkit/habits/server":   {},
	"testkit/habits/postgres": {},
	"testkit/locktest":        {"internal/lock", "internal/step", "testkit/testenv"},
	"testkit/resulttest": {
		"contract/api", "judge", "loadtest", "loadtest/client", "loadtest/compare", "loadtest/plan",
	},
	"testkit/stocktest": {
		"contract/ledger", "internal/idempotency", "internal/lock/coord", "internal/lock/handoff",
		"internal/lock/textbook", "internal/shop", "internal/step", "internal/stock", "testkit/testenv",
	},
	"testkit/storetest": {"contract/ledger", "internal/store"},
	"testkit/reservationtest": {
		"contract/api", "contract/ledger", "internal/handler", "internal/idempotency", "internal/store", "judge",
		"target",
	},
	"testkit/testenv": {"internal/backend", "say/redact", "stack", "stack/engine", "stack/keeper"},
}

// never has what a package must not import although its arrows would allow it.
var never = map[string][]string{"cmd/shop": {"faultlab/rig", "faultlab/rig/gear"}}

// testOnly packages are imported by tests, and by each other. testAids are further packages that both may import: those
// that open a store, its rows, the judge with its vocabulary, the proxies that delay answers, and the client's side.
var (
	testOnly = []string{"testkit/testenv", "testkit", "testkit/doctest",
		"testkit/fakeshop", "testkit/locktest", "testkit/stocktest", "testkit/storetest", "testkit/resulttest",
		"testkit/reservationtest", "testkit/habits"}
	testAids = []string{"internal/backend", "migrations", "judge", "contract/api", "contract/ledger",
		"stack/wire", "stack/wire/codec", "target"}
)

// dials are the functions that open a connection to a backend. Only dialers may call them, outside of tests.
var (
	dials = map[string][]string{
		"github.com/redis/go-redis/v9": {
			"NewClient", "NewUniversalClient", "NewClusterClient", "NewFailoverClient", "NewFailoverClusterClient", "NewRing",
			"NewSentinelClient",
		},
		"gorm.io/gorm":                     {"Open"},
		"database/sql":                     {"Open", "OpenDB"},
		"github.com/jackc/pgx/v5/stdlib":   {"OpenDB"},
		"go.etcd.io/etcd/client/v3":        {"New", "NewFromURL", "NewFromURLs"},
		"github.com/go-zookeeper/zk":       {"Connect", "ConnectWithDialer"},
		"github.com/hashicorp/consul/api":  {"NewClient"},
		"github.com/twmb/franz-go/pkg/kgo": {"NewClient"},
	}
	// The lab has a connection of its own to the databases that it harms, and so has who reads somebody's service.
	dialers = []string{"internal/backend", "stack/engine", "testkit/testenv", "testkit/locktest", "faultlab/rig/gear",
		"target",
		"testkit/habits/server", "testkit/habits/postgres", "examples/front", "examples/thirty"}
)

// check returns what a source file, given by its path in the module, does against the arrows.
func check(name string, src any) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	dir, isTest := path.Dir(name), strings.HasSuffix(name, "_test.go")
	allowed, listed := arrows[dir]
	if !listed {
		return []string{name + ": package " + dir + " is not in the table of arrows_test.go: add it, with what it may " +
			"import"}, nil
	}
	var wrong []string
	report := func(what string) { wrong = append(wrong, name+": package "+dir+" must not "+what) }
	names := map[string]string{} // local name -> import path, of the packages that can dial
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if ours, ok := strings.CutPrefix(imported, module+"/"); ok && !mayImport(dir, ours, allowed, isTest) {
			report("import " + ours)
		}
		if !mayImportModule(dir, imported, isTest) {
			report("import " + imported)
		}
		if _, ok := dials[imported]; ok {
			names[localName(spec, imported)] = imported
		}
	}
	if !isTest && !slices.Contains(dialers, dir) {
		for _, call := range dialsIn(file, names) {
			report("dial: " + call + " belongs into internal/backend")
		}
	}
	return wrong, nil
}

func mayImport(dir, imported string, allowed []string, isTest bool) bool {
	if slices.Contains(testOnly, imported) {
		return isTest || slices.Contains(testOnly, dir)
	}
	if slices.Contains(never[dir], imported) {
		return false
	}
	if slices.Contains(allowed, "*") || slices.Contains(allowed, imported) {
		return true
	}
	if slices.Contains(testAids, imported) {
		return isTest || slices.Contains(testOnly, dir)
	}
	return isTest && imported == dir
}

func localName(spec *ast.ImportSpec, imported string) string {
	switch {
	case spec.Name != nil:
		return spec.Name.Name
	case imported == "github.com/redis/go-redis/v9":
		return "redis"
	case imported == "go.etcd.io/etcd/client/v3":
		return "clientv3"
	}
	return path.Base(imported)
}

// dialsIn lists the uses, called or not, of a dialling function.
func dialsIn(file *ast.File, names map[string]string) []string {
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := sel.X.(*ast.Ident); ok && slices.Contains(dials[names[pkg.Name]], sel.Sel.Name) {
				found = append(found, pkg.Name+"."+sel.Sel.Name)
			}
		}
		return true
	})
	return found
}

// sources calls each with every Go file of the module, by its path in it.
func sources(t *testing.T, each func(name string, src []byte)) {
	t.Helper()
	root, err := filepath.Abs("..")
	testkit.Must(t, err)
	err = filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if entry.IsDir() {
			return skip(file, name, entry.Name())
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		src, err := os.ReadFile(file)
		if err == nil {
			each(name, src)
		}
		return err
	})
	testkit.Must(t, err)
}

func TestArrows(t *testing.T) {
	seen, used, usedModules := map[string]bool{}, map[string]bool{}, map[string]bool{}
	sources(t, func(name string, src []byte) {
		dir := path.Dir(name)
		seen[dir] = true
		wrong, err := check(name, src)
		testkit.Check(t, err)
		for _, w := range wrong {
			t.Error(w)
		}
		for _, imported := range imports(name, src) {
			if to, ok := strings.CutPrefix(imported, module+"/"); ok {
				used[dir+" -> "+to] = true
			} else if third(imported) {
				usedModules[user(name, imported)+" -> "+moduleOf(imported)] = true
			}
		}
	})
	if !seen["cmd/shop"] || !seen["internal/stock"] {
		t.Errorf("saw the packages %v: this test looked in the wrong place", seen)
	}
	for _, a := range append(unused(arrows, used), unused(modules, usedModules)...) {
		t.Errorf("nobody uses the arrow %s: delete it from the table", a)
	}
}

// imports lists what a source file imports.
func imports(name string, src any) (all []string) {
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
	if err != nil {
		return nil
	}
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		all = append(all, imported)
	}
	return all
}

// unused lists the arrows of a table, as "from -> to", that no source file uses.
func unused(table map[string][]string, used map[string]bool) (all []string) {
	for from, allowed := range table {
		for _, to := range allowed {
			if arrow := from + " -> " + to; to != "*" && !used[arrow] {
				all = append(all, arrow)
			}
		}
	}
	slices.Sort(all)
	return all
}

// The test finds permitted imports that no package uses.
func TestArrowsAreUsed(t *testing.T) {
	for name, c := range map[string]struct {
		table      map[string][]string
		used, want string
	}{
		"ours":    {arrows, "internal/lock -> internal/step", "judge -> contract/api"},
		"modules": {modules, "internal/lock -> github.com/google/uuid", "internal/handler -> github.com/gin-gonic/gin"},
	} {
		all := unused(c.table, map[string]bool{c.used: true})
		if slices.Contains(all, c.used) || !slices.Contains(all, c.want) {
			t.Errorf("%s: unused = %v, want all but the one that is used", name, all)
		}
	}
}

// skip leaves out what the go command leaves out: hidden folders, testdata, and modules of their own.
func skip(file, name, base string) error {
	if name == "." {
		return nil
	}
	if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil || strings.HasPrefix(base, ".") ||
		strings.HasPrefix(base, "_") ||
		base == "testdata" || name == "bin" || name == "out" {
		return filepath.SkipDir
	}
	return nil
}

// A mutant per rule: each source must be caught, or must pass.
func TestArrowsCatch(t *testing.T) {
	tests := map[string]struct {
		name string
		src  string
		want string // part of the complaint; "" = none
	}{
		"api imports ours": {"contract/api/x.go", `import _ "lastitem/internal/step"`,
			"must not import internal/step"},
		"audit imports stock": {"judge/x.go", `import _ "lastitem/internal/stock"`,
			"must not import internal/stock"},
		"loadtest imports handler": {"loadtest/x.go", `import _ "lastitem/internal/handler"`,
			"must not import internal/handler"},
		"loadtest imports audit": {"loadtest/x.go", `import _ "lastitem/judge"`, ""},
		"faultlab imports lock": {"faultlab/fault/x.go", `import _ "lastitem/internal/lock"`,
			"must not import internal/lock"},
		"lock imports step": {"internal/lock/x.go", `import _ "lastitem/internal/step"`, ""},
		"textbook imports handoff": {"internal/lock/textbook/x.go", `import _ "lastitem/internal/lock/handoff"`,
			"must not import internal/lock/handoff"},
		"lock imports a room": {"internal/lock/x.go", `import _ "lastitem/internal/lock/lease"`,
			"must not import internal/lock"},
		"lock imports store": {"internal/lock/x.go", `import _ "lastitem/internal/store"`,
			"must not import internal/store"},
		"coord uses etcd": {"internal/lock/coord/x.go", `import clientv3 "go.etcd.io/etcd/client/v3"; var _ ` +
			`clientv3.Client`, ""},
		"lock uses a client": {"internal/lock/x.go", `import _ "github.com/redis/go-redis/v9"`,
			"must not import github.com/redis"},
		"lock dials etcd": {"internal/lock/x.go", `import clientv3 "go.etcd.io/etcd/client/v3"; var _ = clientv3.New`,
			"must not dial: clientv3.New"},
		"coord dials zookeeper": {"internal/lock/coord/x.go", `import "github.com/go-zookeeper/zk"; var _ = zk.Connect`,
			"must not dial: zk.Connect"},
		"coord dials consul": {"internal/lock/coord/x.go", `import "github.com/hashicorp/consul/api"; var _ = ` +
			`api.NewClient`, "must not dial: api.NewClient"},
		"stock dials kafka": {"internal/stock/x.go", `import "github.com/twmb/franz-go/pkg/kgo"; var _ = kgo.NewClient`,
			"must not dial: kgo.NewClient"},
		"stock imports shop": {"internal/stock/x.go", `import _ "lastitem/internal/shop"`,
			"must not import internal/shop"},
		"so does a test of it": {"internal/stock/x_test.go", `import _ "lastitem/internal/shop"`,
			"must not import internal/shop"},
		"shop imports stock": {"internal/shop/x.go", `import _ "lastitem/internal/stock"`, ""},
		"stock imports kafka": {"internal/stock/x.go", `import _ "github.com/twmb/franz-go/pkg/kgo"`,
			"must not import github.com/twmb/franz-go/pkg/kgo"},
		"another module's part": {"internal/shop/x.go", `import _ "github.com/twmb/franz-go/pkg/kfake"`,
			"must not import github.com/twmb/franz-go/pkg/kfake"},
		"a module nobody listed": {"internal/stock/x.go", `import _ "example.com/leftpad"`,
			"must not import example.com/leftpad"},
		"a test imports go-cmp": {"judge/x_test.go", `import _ "github.com/google/go-cmp/cmp"`, ""},
		"audit imports go-cmp": {"judge/x.go", `import _ "github.com/google/go-cmp/cmp"`,
			"must not import github.com/google/go-cmp/cmp"},
		"a test imports gin": {"internal/stock/x_test.go", `import _ "github.com/gin-gonic/gin"`,
			"must not import github.com/gin-gonic/gin"},
		"handler imports gin": {"internal/handler/x.go", `import _ "github.com/gin-gonic/gin/render"`, ""},
		"stock imports gin": {"internal/stock/x.go", `import _ "github.com/gin-gonic/gin"`,
			"must not import github.com/gin-gonic/gin"},
		"handler imports redis": {"internal/handler/x.go", `import _ "github.com/redis/go-redis/v9"`,
			"must not import github.com/redis"},
		"handler imports sql": {"internal/handler/x.go", `import _ "database/sql"`, "must not import database/sql"},
		"handler imports etcd": {"internal/handler/x.go", `import _ "go.etcd.io/etcd/client/v3"`,
			"must not import go.etcd.io"},
		"handler imports store": {"internal/handler/x.go", `import _ "lastitem/internal/store"`,
			"must not import internal/store"},
		"handler imports a database": {"internal/handler/x.go", `import _ "lastitem/internal/store/redisdb"`,
			"must not import internal/store/redisdb"},
		"redisdb imports sqldb": {"internal/store/redisdb/x.go", `import _ "lastitem/internal/store/sqldb"`,
			"must not import internal/store/sqldb"},
		"store imports a client": {"internal/store/x.go", `import _ "github.com/redis/go-redis/v9"`,
			"must not import github.com/redis"},
		"target imports the lab": {"target/x.go", `import _ "lastitem/faultlab/rig"`, "must not import faultlab/rig"},
		"cmd imports a lane":     {"cmd/shop/x.go", `import _ "lastitem/faultlab/rig"`, "must not import faultlab/rig"},
		"a new package":          {"internal/utils/x.go", `import _ "fmt"`, "add it"},
		"a new folder below":     {"loadtest/engine/x.go", `import _ "fmt"`, "add it"},
		"cmd imports all":        {"cmd/shop/x.go", `import _ "lastitem/internal/handler"`, ""},
		"cmd imports a test aid": {"cmd/shop/x.go", `import _ "lastitem/testkit/testenv"`,
			"must not import testkit/testenv"},
		"a test imports testenv": {"internal/lock/x_test.go", `import _ "lastitem/testkit/testenv"`, ""},
		"a test imports itself":  {"internal/lock/x_test.go", `import _ "lastitem/internal/lock"`, ""},
		"a test judges":          {"internal/stock/x_test.go", `import _ "lastitem/judge"`, ""},
		"a test opens a store":   {"internal/stock/x_test.go", `import _ "lastitem/internal/backend"`, ""},
		"stock imports backend": {"internal/stock/x.go", `import _ "lastitem/internal/backend"`,
			"must not import internal/backend"},
		"a test goes astray": {"internal/lock/x_test.go", `import _ "lastitem/internal/handler"`,
			"must not import internal/handler"},
		"stock dials redis": {"internal/stock/x.go", `import "github.com/redis/go-redis/v9"; var _ = ` +
			`redis.NewClient(nil)`, "must not dial: redis.NewClient"},
		"cmd dials by alias": {"cmd/shop/x.go", `import r "github.com/redis/go-redis/v9"; var _ = r.NewUniversalClient`,
			"must not dial: r.NewUniversalClient"},
		"sqldb opens gorm": {"internal/store/sqldb/x.go", `import "gorm.io/gorm"; var _, _ = gorm.Open(nil)`,
			"must not dial: gorm.Open"},
		"stack opens sql": {"stack/x.go", `import "database/sql"; var _, _ = sql.Open("", "")`,
			"must not dial: sql.Open"},
		"backend opens sql": {"internal/backend/x.go", `import "database/sql"; var _, _ = sql.Open("", "")`, ""},
		"a test opens sql":  {"internal/store/sqldb/x_test.go", `import "database/sql"; var _, _ = sql.Open("", "")`, ""},
		"os.Open is not sql.Open": {"internal/store/sqldb/x.go", `import ("database/sql"; "os"); var _ sql.DB; var _, _ = ` +
			`os.Open("")`, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			wrong, err := check(tt.name, "package p\n"+tt.src)
			testkit.Must(t, err)
			got := strings.Join(wrong, "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("check(%s) = %q, want %q", tt.src, got, tt.want)
			}
		})
	}
}

// An arrow to a package that has no line of its own is a mistake.
func TestArrowsName(t *testing.T) {
	for dir, allowed := range arrows {
		for _, to := range allowed {
			if _, ok := arrows[to]; !ok && to != "*" {
				t.Errorf("arrow %s -> %s points to a package that has no line", dir, to)
			}
		}
	}
}
