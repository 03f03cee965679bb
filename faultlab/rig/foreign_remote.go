package rig

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/stack"
)

// Remote resets and reads a foreign service that somebody else runs, by the same description as the lab's.
type Remote struct {
	f    *Foreign
	lane Lane // of which only the stores and the address are set
}

// At returns the service at an address, with its stores: a Redis URL and a DSN or mysql:// URL of a database, "" =
// none. Its commands are run as they are: nothing else in these stores is touched.
func (f *Foreign) At(base, redis, database string) (*Remote, error) {
	r := &Remote{f: f, lane: Lane{base: strings.TrimRight(base, "/")}}
	if u, err := url.Parse(redis); err != nil || redis != "" && u.Host == "" {
		return nil, text.Of("--redis: want redis://host:port/db").Errorf()
	} else if redis != "" {
		password, _ := u.User.Password()
		at := &stack.Running{Addr: u.Host}
		r.lane.laneRedis = node{run: at, password: password, database: strings.Trim(u.Path, "/")}
	}
	if u, err := url.Parse(database); err == nil && u.Scheme == "mysql" {
		password, _ := u.User.Password()
		database = fmt.Sprintf("%s:%s@tcp(%s)%s?%s", u.User.Username(), password, u.Host, u.Path, u.RawQuery)
	}
	var err error
	if database != "" {
		r.lane.SQL.db, err = sql.Open("mysql", database)
	}
	return r, err
}

// Check returns the first mistake in the description for a service that somebody else runs; nil = none.
func (r *Remote) Check() error {
	f := r.f
	err := cmp.Or(f.checkMeanings(), f.checkResets())
	for what, s := range map[string]Source{"stock": f.Stock, "orders": f.Orders} {
		if s != (Source{}) {
			err = cmp.Or(err, s.check(what, true))
		}
	}
	switch {
	case err != nil:
		return err
	case f.usesDatabase() && r.lane.SQL.db == nil:
		return text.Of("--sql: want the database for the options whose names end in -sql").Errorf()
	case f.usesCommands() && r.lane.laneRedis.run == nil:
		return text.Of("--redis: want the Redis for the options whose names end in -redis").Errorf()
	}
	return nil
}

// Setup runs SetupSQL, once.
func (r *Remote) Setup(ctx context.Context) error {
	return execAll(ctx, r.lane.SQL.db, "setup-sql", r.f.SetupSQL, nil)
}

// Reset sets the stock of a product and deletes its orders.
func (r *Remote) Reset(ctx context.Context, product, stock int64) error {
	l := r.lane
	l.number = int(product - firstProduct)
	return r.f.runResets(ctx, &l, Reset{Product: product, Stock: stock})
}

// Ledger reads the stock of a product that had initial units at first and, if Orders is set, its orders.
func (r *Remote) Ledger(ctx context.Context, product, initial int64) (*api.Ledger, error) {
	l := r.lane
	l.number, l.initial = int(product-firstProduct), initial
	return r.f.ledger(ctx, &l)
}

// Read classifies an answer of the service, and takes the order's id from it.
func (f *Foreign) Read(status int, body []byte) judge.Op {
	return f.answer(&http.Response{StatusCode: status}, body)
}
