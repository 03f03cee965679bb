package target

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"lastitem/say/text"
)

// Remote is a foreign service at an address, with its stores. Its commands are run as they are: nothing else in these
// stores is touched.
type Remote struct {
	*Foreign
	URL string  // without a slash at its end
	SQL *sql.DB // nil = none
	// Redis runs a command and returns the values of its answer, nested arrays flattened and nil values left out; nil =
	// there is none.
	Redis func(ctx context.Context, words ...string) ([]string, error)
	// Servers are the values of the placeholders of ResetCmd beside product and stock; nil = it may have no others.
	Servers map[string]string
	// Watch is told of every step of a purchase that is tried; nil = it is not. See [Visit.Note].
	Watch func(step string, c Call, r Reply, saved map[string]string)

	tried     map[int64]tried // by product, see Try
	last      sync.Map        // by product, the reading of Ledger
	transport *http.Transport // nil = plainTransport
}

// remotePatience is how long a service may take to answer what is no part of a load.
const remotePatience = time.Minute

// plainTransport is for everything that is no part of a load or a schedule.
var plainTransport = NewTransport(false)

// OpenSQL opens a database: the DSN of a MySQL, or a URL, mysql:// or postgres://.
func OpenSQL(address string) (*sql.DB, error) {
	u, err := url.Parse(address)
	switch {
	case err == nil && u.Scheme == "mysql":
		password, _ := u.User.Password()
		address = fmt.Sprintf("%s:%s@tcp(%s)%s?%s", u.User.Username(), password, u.Host, u.Path, u.RawQuery)
	case err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql"):
		config, err := pgx.ParseConfig(address)
		if err != nil {
			return nil, text.Of("want postgres://user:password@host:port/db").Errorf()
		}
		config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // a pooler may know no prepared statements
		return stdlib.OpenDB(*config), nil
	}
	return sql.Open("mysql", address)
}

// At returns the service at an address, with its stores: a Redis URL and the address of a database, see [OpenSQL]; "" =
// none. An error names the first mistake.
func (f *Foreign) At(base, redisURL, database string) (*Remote, error) {
	u, err := ParseAddress(base)
	if err != nil {
		return nil, err
	}
	if u.User != nil { // all clients send it, not only those that know what it means in an address
		own := *f
		password, _ := u.User.Password()
		own.Headers = append(slices.Clone(f.Headers), "Authorization: Basic "+
			base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
		f, u.User = &own, nil
	}
	r := &Remote{Foreign: f, URL: strings.TrimRight(u.String(), "/"), transport: NewTransport(f.Insecure)}
	if redisURL != "" {
		o, err := redis.ParseURL(redisURL)
		if err != nil {
			return nil, text.Of("--redis: want redis://host:port/db").Errorf()
		}
		o.Protocol, o.MaxRetries = 2, -1 // a command that is sent twice may be executed twice
		r.Redis = Commands(redis.NewClient(o))
	}
	if database != "" {
		if r.SQL, err = OpenSQL(database); err != nil {
			return nil, fmt.Errorf("--sql: %w", err)
		}
	}
	err = r.check()
	return r, err
}

// check returns the first mistake in the description for a service that somebody else runs; nil = none.
func (r *Remote) check() error {
	f := r.Foreign
	err := cmp.Or(f.checkRequests(), f.checkMeanings(), f.checkResets())
	for what, s := range map[string]Source{"stock": f.Stock, "orders": f.Orders} {
		if s != (Source{}) {
			err = cmp.Or(err, s.check(what, true))
		}
	}
	for _, said := range f.ResetCmd { // which servers they are, only the lab knows
		err = cmp.Or(err, onlyMentions("reset-cmd", said, resetWords))
	}
	switch {
	case err != nil:
		return err
	case f.usesDatabase() && r.SQL == nil:
		return text.Of("--sql: want the database for the options whose names end in -sql").Errorf()
	case f.usesCommands() && r.Redis == nil:
		return text.Of("--redis: want the Redis for the options whose names end in -redis").Errorf()
	}
	return nil
}

// Commands returns what runs commands over a client, in the form of [Remote].Redis.
func Commands(client *redis.Client) func(context.Context, ...string) ([]string, error) {
	return func(ctx context.Context, words ...string) ([]string, error) {
		args := make([]any, len(words))
		for i, w := range words {
			args[i] = w
		}
		answer, err := client.Do(ctx, args...).Result()
		if errors.Is(err, redis.Nil) {
			return nil, nil
		}
		return flat(answer), err
	}
}

// flat are the values of an answer of Redis.
func flat(answer any) (all []string) {
	switch v := answer.(type) {
	case nil:
	case []any:
		for _, x := range v {
			all = append(all, flat(x)...)
		}
	default:
		all = []string{fmt.Sprint(v)}
	}
	return all
}

// Setup runs SetupSQL, once.
func (r *Remote) Setup(ctx context.Context) error { return r.exec(ctx, "setup-sql", r.SetupSQL, nil) }

// reset sets the stock of a product and deletes its orders, as the resets of the description do.
func (r *Remote) reset(ctx context.Context, product, stock int64) error {
	within := cmp.Or(r.ResetWithin, remotePatience)
	ctx, cancel := context.WithTimeoutCause(ctx, within, text.Of("it took longer than %v: --reset-within").Errorf(within))
	defer cancel()
	err := r.resetAll(ctx, map[string]string{"product": r.ProductName(product), "stock": strconv.FormatInt(stock, 10)})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

func (r *Remote) resetAll(ctx context.Context, values map[string]string) error {
	if err := r.exec(ctx, "reset-sql", r.ResetSQL, values); err != nil {
		return err
	}
	for _, said := range r.ResetRedis {
		if _, err := r.command(ctx, "reset-redis", said, values); err != nil {
			return err
		}
	}
	for _, said := range r.ResetURL {
		if _, err := r.fetch(ctx, r.URL, said, values); err != nil {
			return fmt.Errorf("--reset-url: %w", err)
		}
	}
	if len(r.ResetCmd) == 0 {
		return nil
	}
	all := maps.Clone(values)
	maps.Copy(all, r.Servers)
	for _, said := range r.ResetCmd {
		if err := r.Run(ctx, said, all); err != nil {
			return fmt.Errorf("--reset-cmd %q: %w", said, err)
		}
	}
	return nil
}

// client is for everything that is no part of a load or a schedule.
func (r *Remote) client() *http.Client {
	return &http.Client{Transport: cmp.Or(r.transport, plainTransport)}
}

// hostOf returns scheme and host of an absolute URL; "" = it is a path.
func hostOf(address string) string {
	u, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(address))
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// fetch sends METHOD PATH [BODY] and returns the answer.
func (r *Remote) fetch(ctx context.Context, base, said string, values map[string]string) (Reply, error) {
	t, err := r.parse(said)
	if err != nil {
		return Reply{}, err
	}
	if base != r.URL { // another host does not get the service's headers
		t.headers = nil
	}
	t.headers = append(t.headers, headersIn(r.ReadHeaders)...)
	return t.call(values).Fetch(ctx, r.client(), base)
}

// command runs a command of the description on the service's Redis and returns the values of its answer.
func (r *Remote) command(ctx context.Context, option, said string, values map[string]string) ([]string, error) {
	words, err := splitWords(said)
	if err != nil {
		return nil, err
	}
	for i, w := range words {
		words[i] = expand(w, values)
	}
	all, err := r.Redis(ctx, words...)
	if err != nil {
		return nil, fmt.Errorf("--%s %q: %w", option, said, err)
	}
	return all, nil
}

// exec runs statements on one connection, since one of them may set something for the next, their placeholders filled
// in. option is the flag that an error names.
func (r *Remote) exec(ctx context.Context, option string, statements []string, values map[string]string) error {
	if len(statements) == 0 {
		return nil
	}
	conn, err := r.SQL.Conn(ctx)
	if err != nil {
		return fmt.Errorf("--%s: %w", option, err)
	}
	defer func() { _ = conn.Close() }()
	for _, s := range statements {
		if _, err := conn.ExecContext(ctx, expand(s, values)); err != nil {
			return fmt.Errorf("--%s %q: %w", option, s, err)
		}
	}
	return nil
}
