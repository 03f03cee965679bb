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

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/target"
)

// Foreign is somebody else's service in the form that a lane runs. Its description has been checked.
func Foreign(f *target.Foreign) Service {
	call, _ := f.Caller() // Check has called it once
	ready := func(ctx context.Context, addr string) error { return foreignReady(ctx, addr, f.Ready) }
	return Service{
		Argv: func(l Launch, addr string) []string {
			argv, _ := f.Launch(launchValues(l, addr))
			return argv
		},
		Env: func(l Launch, addr string) []string {
			_, env := f.Launch(launchValues(l, addr))
			return env
		},
		Ready: ready, Call: call,
		Read: func(_ judge.ReservationKind, r target.Reply) target.Answer { return f.Read(r) },
		Setup: func(ctx context.Context, l *Lane) error {
			if !f.UsesSQL() {
				return nil
			}
			db, err := l.SQL.access()
			if err != nil {
				return err
			}
			return (&target.Remote{Foreign: f, SQL: db}).Setup(ctx) // there is no replica yet
		},
		Reset: func(ctx context.Context, l *Lane, to api.SetStock) error { return foreignReset(ctx, l, f, to.Stock) },
		Ledger: func(ctx context.Context, l *Lane) (*api.Ledger, error) {
			return l.remote(f).Ledger(ctx, l.Product(), l.initial)
		},
		Dir: f.Dir, Alone: true, Waits: true, Open: !f.TakesPassword(), Keyless: !f.HasKey(),
	}
}

// remote is the service as the lab reads and resets it: its stores without the proxies, and a replica that can answer.
func (l *Lane) remote(f *target.Foreign) *target.Remote {
	return &target.Remote{Foreign: f, URL: l.asker(), SQL: l.SQL.db, Redis: l.redis().all}
}

// foreignReset empties Redis and prepares the product.
func foreignReset(ctx context.Context, l *Lane, f *target.Foreign, stock int64) error {
	if f.UsesRedis() && !f.KeepRedis {
		if _, err := l.redis().do(ctx, "FLUSHALL"); err != nil {
			return err
		}
	}
	l.initial = stock
	_, err := l.remote(f).Prepare(ctx, l.Product(), stock)
	return err
}

// launchValues returns the values of the placeholders of a command line.
func launchValues(l Launch, addr string) map[string]string {
	_, port, _ := net.SplitHostPort(addr)
	v := map[string]string{
		"port": port, "addr": addr, "replica": l.Actor,
		"ttl_ms": strconv.FormatInt(l.TTL.Milliseconds(), 10), "ttl_s": strconv.FormatFloat(l.TTL.Seconds(), 'f', -1, 64),
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

// moreThanCustomers says whether there are more orders than customers who may have one, if a customer repeated a
// request: only then two requests have one key. It needs no name of an order, neither in the answers nor by key.
func moreThanCustomers(seen []judge.Op, orders []api.Order) bool {
	customers, repeated := map[string]bool{}, false
	for _, op := range seen {
		if op.Outcome == judge.OK || op.Outcome == judge.Unknown {
			repeated = repeated || customers[op.Key]
			customers[op.Key] = true
		}
	}
	return repeated && len(orders) > len(customers)
}

// soldTwice says whether one key was answered with two orders. The lab has seen both answers, even one for which the
// client no longer waited; the ledger shows the second order only if orders have keys.
func soldTwice(seen []judge.Op) bool {
	orders := map[string]string{}
	for _, op := range seen {
		if op.Outcome != judge.OK || op.Key == "" || op.OrderID == "" {
			continue
		}
		if first, there := orders[op.Key]; there && first != op.OrderID {
			return true
		}
		orders[op.Key] = op.OrderID
	}
	return false
}
