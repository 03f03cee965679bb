package rig

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig/gear"
	"lastitem/judge"
	"lastitem/target"
)

// Foreign is somebody else's service in the form that a lane runs. Its description has been checked.
func Foreign(f *target.Foreign) Service {
	call, _ := f.Caller() // Check has called it once
	ready := func(ctx context.Context, addr string) error { return foreignReady(ctx, addr, f.Ready) }
	return Service{
		Argv: func(l Launch, addr string) []string {
			argv, _ := f.Launch(f.Serve, launchValues(l, addr))
			return argv
		},
		Env: func(l Launch, addr string) []string {
			_, env := f.Launch(f.Serve, launchValues(l, addr))
			return env
		},
		Ready: ready, Call: call,
		Read: func(_ judge.ReservationKind, r target.Reply) target.Answer { return f.Read(r) },
		Setup: func(ctx context.Context, at Site) error {
			if err := setUp(ctx, at, f); err != nil || !f.UsesSQL() {
				return err
			}
			return remote(f, at).Setup(ctx)
		},
		Reset: func(ctx context.Context, at Site, to api.SetStock) error { return foreignReset(ctx, at, f, to.Stock) },
		Ledger: func(ctx context.Context, at Site) (*api.Ledger, error) {
			return remote(f, at).Ledger(ctx, at.Product(), at.Initial)
		},
		Dir: f.Dir, Alone: true, Waits: true, Open: !f.TakesPassword(), Keyless: !f.HasKey(),
		ProductName: f.ProductName, MorePorts: f.MorePorts(), ReadyWithin: f.ReadyWithin, ResetWithin: f.ResetWithin,
		learnt: new(learnt), Gone: f.Gone, Settle: f.Settle, Visit: visits(f),
		Promised: func(r target.Reply) bool { return f.Then != nil || f.Promises(r) },
	}
}

// visits makes the buyers of a service whose purchase takes several steps; nil = it takes one.
func visits(f *target.Foreign) func(product, quantity int64, key string) *target.Visit {
	if f.Buy == nil {
		return nil
	}
	return f.NewVisit
}

// setUp runs the commands that prepare the lane's servers, past the proxies.
func setUp(ctx context.Context, at Site, f *target.Foreign) error {
	for _, said := range f.SetupCmd {
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(f.ReadyWithin, setupWithin))
		err := f.Run(ctx, said, serverValues(at))
		cancel()
		if err != nil {
			return fmt.Errorf("faultlab: --setup-cmd %q: %w", said, err)
		}
	}
	return nil
}

// setupWithin is how long a command that prepares a lane may take, unless the description says otherwise.
const setupWithin = 3 * time.Minute

// serverValues are the values of the placeholders for the servers of a lane, past the proxies.
func serverValues(at Site) map[string]string {
	return launchValues(Launch{TTL: at.TTL, URLs: at.Direct()}, "127.0.0.1:0")
}

// remote is the service as the lab reads and resets it: its stores without the proxies, and a replica that can answer.
func remote(f *target.Foreign, at Site) *target.Remote {
	db, _ := at.SQL.DB() // the lane has none if the service uses none
	r := &target.Remote{Foreign: f, URL: at.URL, SQL: db, Redis: at.Redis().All}
	if f.ResetCmd != nil {
		r.Servers = serverValues(at)
	}
	return r
}

// foreignReset empties Redis and prepares the product.
func foreignReset(ctx context.Context, at Site, f *target.Foreign, stock int64) error {
	if f.UsesRedis() && !f.KeepRedis {
		if _, err := at.Redis().Do(ctx, "FLUSHALL"); err != nil {
			return err
		}
	}
	_, err := remote(f, at).Prepare(ctx, at.Product(), stock)
	return err
}

// launchValues returns the values of the placeholders of a command line.
func launchValues(l Launch, addr string) map[string]string {
	_, port, _ := net.SplitHostPort(addr)
	v := map[string]string{
		"port": port, "addr": addr, "replica": l.Actor,
		"ttl_ms": strconv.FormatInt(l.TTL.Milliseconds(), 10), "ttl_s": strconv.FormatFloat(l.TTL.Seconds(), 'f', -1, 64),
	}
	for i, port := range l.Ports {
		v["port"+strconv.Itoa(i+2)] = port
	}
	if to, err := url.Parse(l.URLs["SHOP_REDIS"]); err == nil && to.Host != "" {
		v["redis"], v["redis_addr"], v["redis_host"], v["redis_port"] = to.String(), to.Host, to.Hostname(), to.Port()
		v["redis_password"], _ = to.User.Password()
	}
	if user, password, addr, database, ok := parseDSN(l.URLs["SHOP_SQL"]); ok {
		host, port, _ := net.SplitHostPort(addr)
		v["mysql_dsn"], v["mysql_addr"], v["mysql_host"], v["mysql_port"] = l.URLs["SHOP_SQL"], addr, host, port
		v["mysql_user"], v["mysql_password"], v["mysql_database"] = user, password, database
		v["mysql"] = "mysql://" + user + ":" + password + "@" + addr + "/" + database
		v["mysql_jdbc"] = "jdbc:mysql://" + addr + "/" + database + "?sslMode=DISABLED&user=" + user + "&password=" + password
	}
	if to, err := url.Parse(l.URLs[gear.PostgresURL]); err == nil && to.Host != "" {
		password, _ := to.User.Password()
		v["postgres"], v["postgres_addr"], v["postgres_host"], v["postgres_port"] = to.String(), to.Host, to.Hostname(),
			to.Port()
		v["postgres_user"], v["postgres_password"], v["postgres_database"] = to.User.Username(), password,
			strings.TrimPrefix(to.Path, "/")
		v["postgres_jdbc"] = "jdbc:postgresql://" + to.Host + to.Path + "?sslmode=disable&user=" + to.User.Username() +
			"&password=" + password
	}
	return v
}

// parseDSN splits a DSN that the lab has made: user:password@tcp(addr)/database.
func parseDSN(dsn string) (user, password, addr, database string, ok bool) {
	account, rest, ok := strings.Cut(dsn, "@tcp(")
	user, password, _ = strings.Cut(account, ":")
	addr, database, found := strings.Cut(rest, ")/")
	return user, password, addr, database, ok && found
}

// foreignReady returns nil when the replica answers as path demands; "" = any answer.
func foreignReady(ctx context.Context, addr, path string) error {
	r, err := target.Call{Method: http.MethodGet, Path: cmp.Or(path, "/")}.Send(ctx, probe, "http://"+addr)
	if err == nil && path != "" && r.Status/100 != 2 && r.Status/100 != 3 {
		err = fmt.Errorf("GET %s: %w", path, target.StatusError(r.Status))
	}
	return err
}
