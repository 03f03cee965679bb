package backend

import (
	"cmp"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"lastitem/internal/sqlite"
	"lastitem/internal/store/sqldb"
	"lastitem/say/redact"
	"lastitem/say/text"
)

// OpenRedis returns a client for a redis:// URL, for a comma-separated list of them (a cluster), or for Sentinels: see
// [sentinelURL]. rediss:// is TLS; the server's certificate is verified, by ?tls_ca= where that is given, unless it
// says ?skip_verify=true. It sends nothing yet.
func OpenRedis(address string, conns int) (redis.UniversalClient, error) {
	return openRedis(address, link{conns: conns})
}

func openRedis(address string, l link) (redis.UniversalClient, error) {
	all, err := redisOptions(address)
	if err != nil {
		return nil, err
	}
	// A command whose answer was lost may have been applied: the client must not send it again by itself. For a cluster it
	// is the redirects that decide: its loop repeats a command after a lost answer as it does after MOVED.
	all.MaxRetries, all.MaxRedirects = -1, -1
	// Without this a command in flight outlives the context of its request.
	all.ContextTimeoutEnabled = true
	all.PoolSize, all.ClientName = l.conns, l.name
	all.DialerRetries = 1 // a server that is down is reported, not waited for: the caller knows how long it can wait
	p := l.patience.orDefault()
	all.DialTimeout, all.ReadTimeout, all.WriteTimeout = p.Dial, p.Redis, p.Redis
	slots := cmp.Or(l.slots, &reloader{})
	all.Dialer = withLastLook(all, slots, l.door)
	if len(all.Addrs) == 1 || all.MasterName != "" {
		return redis.NewUniversalClient(all), nil
	}
	o := all.Cluster()
	o.ClusterStateReloadInterval = reloadEvery
	c := redis.NewClusterClient(o)
	slots.c.Store(c)
	return c, nil
}

func redisOptions(address string) (*redis.UniversalOptions, error) {
	want := text.Of("want redis://host:port/db, or redis+sentinel://host:port,host:port/MASTER/db for Sentinel")
	bad := func(part string, err error) error {
		return text.Of("backend: Redis address %q: %s (%s)").Errorf(redact.Address(part), reason(err), want)
	}
	if u := sentinelURL(address); u != "" {
		o, err := sentinelOptions(u)
		if err != nil {
			return nil, bad(address, err)
		}
		return o, nil
	}
	all := &redis.UniversalOptions{}
	for part := range strings.SplitSeq(address, ",") {
		part = strings.TrimSpace(part)
		o, err := redisNode(part)
		if err == nil && len(all.Addrs) > 0 {
			err = fitsCluster(all, o)
		}
		if err != nil {
			return nil, bad(part, err)
		}
		all.Addrs = append(all.Addrs, o.Addr)
		all.Username, all.Password, all.DB, all.TLSConfig = o.Username, o.Password, o.DB, o.TLSConfig
	}
	return all, nil
}

// fitsCluster refuses what a cluster would ignore of the URL of a further node.
func fitsCluster(all *redis.UniversalOptions, o *redis.Options) error {
	switch {
	case (all.TLSConfig == nil) != (o.TLSConfig == nil):
		return text.Of("redis:// and rediss:// in one list").Errorf()
	case all.Username != o.Username || all.Password != o.Password:
		return text.Of("the user and the password must be the same in the whole list").Errorf()
	case all.DB != 0 || o.DB != 0:
		return text.Of("a list is a cluster, which has database 0 only").Errorf()
	}
	return nil
}

// redisNode reads the URL of one server.
func redisNode(address string) (*redis.Options, error) {
	plain, files, err := takeTLSFiles(address)
	if err == nil {
		err = onlyUsed(plain, "db", "skip_verify")
	}
	if err != nil {
		return nil, err
	}
	o, err := redis.ParseURL(plain)
	if err != nil {
		return nil, err
	}
	if o.Network == "unix" {
		return nil, text.Of("sockets are not supported").Errorf()
	}
	o.TLSConfig, err = redisTLS(o.TLSConfig, files)
	return o, err
}

// onlyUsed refuses a URL with parameters other than those named, or with a fragment: they would be ignored.
func onlyUsed(address string, names ...string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return err
	}
	for name := range query {
		if !slices.Contains(names, name) {
			return text.Of("the parameter %q is not used").Errorf(name)
		}
	}
	if strings.Contains(address, "#") {
		return text.Of("what follows # is not used; in a password write %%23").Errorf()
	}
	return nil
}

// sentinelURL returns an address of Sentinels as redis://[user:password@]host:port/db?master_name=...&addr=...; "" for
// any other. Besides that form it reads redis+sentinel://[user:password@]host:port,host:port/MASTER/db; rediss is TLS,
// also to the Sentinels.
func sentinelURL(address string) string {
	rest, query, _ := strings.Cut(address, "?")
	scheme, rest, _ := strings.Cut(rest, "://")
	scheme, alias := strings.CutSuffix(scheme, "+sentinel")
	values, err := url.ParseQuery(query)
	named := strings.Contains(query, "master_name=")
	if err != nil && named || !alias && !named { // a query that cannot be read is refused where the whole address is
		return map[bool]string{true: address}[named]
	}
	at := strings.LastIndex(rest, "@") + 1
	hosts, path, _ := strings.Cut(rest[at:], "/")
	all := strings.Split(hosts, ",")
	if alias && !named {
		master, db, _ := strings.Cut(path, "/")
		values.Set("master_name", master)
		path = db
	}
	for _, further := range all[1:] {
		values.Add("addr", strings.TrimSpace(further))
	}
	return scheme + "://" + rest[:at] + all[0] + "/" + path + "?" + values.Encode()
}

// sentinelOptions reads what sentinelURL returns. The user and the password before the @ are the servers', as in every
// address; those of the Sentinels are sentinel_username= and sentinel_password=. Where username= or password= are
// given, those are the servers', and what stands before the @ is the Sentinels', as go-redis has it.
func sentinelOptions(address string) (*redis.UniversalOptions, error) {
	plain, files, err := takeTLSFiles(address)
	if err == nil {
		err = onlyUsed(plain, "master_name", "addr", "db", "skip_verify", "username", "password", "sentinel_username",
			"sentinel_password")
	}
	if err != nil {
		return nil, err
	}
	u, _ := url.Parse(plain) // onlyUsed has read it
	query := u.Query()
	sentinel := [2]string{query.Get("sentinel_username"), query.Get("sentinel_password")}
	query.Del("sentinel_username")
	query.Del("sentinel_password")
	u.RawQuery = query.Encode()
	o, err := redis.ParseFailoverURL(u.String())
	if err != nil {
		return nil, err
	}
	before := [2]string{o.SentinelUsername, o.SentinelPassword}
	switch none := [2]string{}; {
	case o.MasterName == "" || strings.ContainsAny(o.MasterName, "/,?#"):
		return nil, text.Of("no name of a master").Errorf()
	case o.Username == "" && o.Password == "":
		o.Username, o.Password = before[0], before[1]
	case before != none && sentinel != none:
		return nil, text.Of("two passwords for the Sentinels").Errorf()
	case before != none:
		sentinel = before
	}
	if sentinel[0] != "" && sentinel[1] == "" {
		return nil, text.Of("a user for the Sentinels without a password").Errorf()
	}
	if o.TLSConfig, err = redisTLS(o.TLSConfig, files); err != nil {
		return nil, err
	}
	return &redis.UniversalOptions{
		MasterName: o.MasterName, Addrs: o.SentinelAddrs, SentinelUsername: sentinel[0], SentinelPassword: sentinel[1],
		Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig,
	}, nil
}

// openTries is how often an SQLite file is tried that others are switching to WAL at the same moment; SQLite does not
// wait for that by itself.
const openTries = 100

// OpenSQL returns a database for a MySQL DSN or URL, which it does not connect to yet, or for "sqlite:" and a file,
// which it opens.
func OpenSQL(dsn string, conns int) (*gorm.DB, error) {
	return openSQL(dsn, link{conns: conns})
}

func openSQL(dsn string, l link) (*gorm.DB, error) {
	for try := 1; ; try++ {
		db, err := tryOpenSQL(dsn, l)
		switch {
		case err == nil:
			return db, nil
		case sqlite.Busy(err) && try < openTries:
			time.Sleep(50 * time.Millisecond)
		case sqlite.CannotOpen(err):
			return nil, text.Of("backend: open %s: the file cannot be read or written, or not be made").
				Errorf(redact.Address(dsn))
		default:
			return nil, err
		}
	}
}

// tryOpenSQL makes a pool of its own, since gorm closes the pool of an attempt that fails.
func tryOpenSQL(dsn string, l link) (*gorm.DB, error) {
	dialector, pool, err := dialect(dsn, l)
	if err != nil {
		return nil, err
	}
	limit(pool, l.conns)
	db, err := gorm.Open(dialector, &gorm.Config{
		SkipDefaultTransaction: true, // single statements are not wrapped; whoever wants a transaction says so
		DisableAutomaticPing:   true,
		Logger:                 logger.Discard, // errors are returned
	})
	if err != nil {
		_ = pool.Close() // nothing was sent yet
		return nil, fmt.Errorf("backend: open %s: %w", redact.Address(dsn), err)
	}
	return db, nil
}

func limit(pool *sql.DB, conns int) {
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns) // the default of two would close and reopen connections all the time
	pool.SetConnMaxIdleTime(5 * time.Minute)
}

// dialect returns what gorm must know of a database, and the pool that it will use.
func dialect(dsn string, l link) (gorm.Dialector, *sql.DB, error) {
	file, err := SQLiteFile(dsn)
	if err != nil {
		return nil, nil, err
	}
	if file != "" {
		connector, err := sqlite.Connector(file)
		if err != nil {
			return nil, nil, fmt.Errorf("backend: SQL address %q: %w", redact.Address(dsn), err)
		}
		pool := sql.OpenDB(connector)
		return sqlite.Dialector{Pool: pool}, pool, nil
	}
	connector, err := mysqlConnector(dsn, l)
	if err != nil {
		return nil, nil, err
	}
	pool := sql.OpenDB(connector)
	return mysql.New(mysql.Config{Conn: pool, SkipInitializeWithVersion: true}), pool, nil
}

// SQLiteFile returns the file that an sqlite: address names, "" for any other. Its error says why no database can be
// there.
func SQLiteFile(dsn string) (string, error) {
	file, ok := strings.CutPrefix(dsn, "sqlite:")
	if !ok {
		return "", nil
	}
	file = strings.TrimPrefix(file, "//")
	if file == "" || strings.HasPrefix(file, ":") || strings.Contains(file, "?") { // it has no parameters
		return "", text.Of("backend: SQL address %q: want sqlite:/path/to/file.db, a file that every replica can open").
			Errorf(redact.Address(dsn))
	}
	dir := filepath.Dir(file)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", text.Of("backend: SQL address %q: there is no directory %s").Errorf(redact.Address(dsn), dir)
	}
	// It is not opened to see: closing it again would end the locks that this process may hold on it.
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return "", text.Of("backend: SQL address %q: it is a directory, want a file in it").Errorf(redact.Address(dsn))
	}
	return file, nil
}

// mysqlConnector makes connections for a MySQL DSN or URL.
func mysqlConnector(dsn string, l link) (sqldriver.Connector, error) {
	cfg, err := parseMySQL(dsn)
	if err == nil {
		_, err = ignoredSQL(dsn)
	}
	if err != nil {
		return nil, err
	}
	zone := "'+00:00'"
	for name, value := range cfg.Params {
		if strings.EqualFold(name, "time_zone") {
			zone = value
			delete(cfg.Params, name)
		}
	}
	cfg.InterpolateParams = true // one round trip a statement instead of two
	cfg.MultiStatements = l.packets
	// affected rows are those that changed: that is how a key which is there already is noticed
	cfg.ClientFoundRows = false
	cfg.Logger = &driver.NopLogger{} // errors are returned
	p := l.patience.orDefault()
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = p.Dial, p.SQL, p.SQL
	if l.name != "" {
		cfg.ConnectionAttributes = strings.TrimPrefix(cfg.ConnectionAttributes+",program_name:"+l.name, ",")
	}
	if err := cfg.Apply(driver.Charset("utf8mb4", "")); err != nil {
		return nil, text.Of("backend: SQL address: %w").Errorf(err)
	}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, text.Of("backend: SQL address: %w").Errorf(err)
	}
	return refusing{connector, zone, l.door}, nil
}

// groupConns is how many products' group commits may be under way at a time, and tripConns how many reservations and
// deductions in one packet; others wait, in order.
const (
	groupConns = 16
	tripConns  = 32
)

// openPools returns the pools of [sqldb.Store.GroupTx] and [sqldb.Store.TripsOn] of s, which do not connect yet.
func openPools(s *sqldb.Store, dsn string, l link) (groups, trips *sql.DB, err error) {
	connector, err := mysqlConnector(dsn, l)
	if err != nil {
		return nil, nil, err
	}
	groups = sql.OpenDB(sqldb.GroupSessions(connector))
	limit(groups, min(l.conns, groupConns))
	l.packets = true
	if connector, err = mysqlConnector(dsn, l); err != nil {
		return nil, nil, err
	}
	trips = sql.OpenDB(s.TripSessions(connector))
	limit(trips, min(l.conns, tripConns))
	return groups, trips, nil
}

// paramsSQL matches the parameters of an address. The driver takes a slash in them, as in a file's name, for the one
// before the database.
var paramsSQL = regexp.MustCompile(`\?\w+=[^?@()]*$`)

// networkSQL matches a DSN with a network, or none.
var networkSQL = regexp.MustCompile(`(?:^|@)(?:(?:tcp6?|unix)\(|(?:tcp|unix)?/)`)

// parseMySQL reads a DSN of go-sql-driver/mysql or a mysql:// URL.
func parseMySQL(dsn string) (*driver.Config, error) {
	want := text.Of("want user:password@tcp(host:port)/database, mysql://user:password@host:port/database or " +
		"sqlite:/path/to/file.db")
	dsn = paramsSQL.ReplaceAllStringFunc(dsn, func(params string) string { return strings.ReplaceAll(params, "/", "%2F") })
	plain, user := dsn, (*url.Userinfo)(nil)
	if strings.HasPrefix(dsn, "mysql://") {
		u, err := url.Parse(dsn)
		if err != nil || u.Host == "" || strings.Contains(dsn, "#") {
			return nil, text.Of("backend: SQL address: not a URL (%s)").Errorf(want) // the URL may hold a password
		}
		host := u.Host
		if u.Port() == "" {
			host += ":3306"
		}
		plain, user = "tcp("+host+")/"+strings.TrimPrefix(u.EscapedPath(), "/")+"?"+u.RawQuery, u.User
	} else if !networkSQL.MatchString(dsn) { // the driver's error would quote a part of the password
		return nil, text.Of("backend: SQL address %q: %s").Errorf(redact.Address(dsn), want)
	}
	cfg, err := driver.ParseDSN(plain)
	if err != nil {
		return nil, text.Of("backend: SQL address %q: %w (%s)").Errorf(redact.Address(dsn), err, want)
	}
	if user != nil {
		cfg.User = user.Username()
		cfg.Passwd, _ = user.Password()
	}
	// It must name a database, and the certificates that it names are read.
	if cfg.DBName == "" {
		return nil, text.Of("backend: SQL address names no database: %s").Errorf(want)
	}
	if err := mysqlTLS(cfg); err != nil {
		return nil, text.Of("backend: SQL address: %w").Errorf(err)
	}
	return cfg, checkSession(cfg.Params)
}

// ignoredSQL refuses the time limits that mysqlConnector replaces by those of the settings. It returns the parameters
// whose other value it needs itself, which applications that share an address may want: they do no harm.
func ignoredSQL(dsn string) (own []string, err error) {
	for part := range strings.SplitSeq(dsn[strings.LastIndex(dsn, "?")+1:], "&") {
		switch name, _, _ := strings.Cut(part, "="); name {
		case "timeout", "readTimeout", "writeTimeout":
			return nil, text.Of("backend: SQL address: the parameter %q is not used; set SHOP_DIAL_TIMEOUT or SHOP_SQL_TIMEOUT").
				Errorf(name)
		case "clientFoundRows", "interpolateParams", "charset":
			if !slices.Contains([]string{"clientFoundRows=false", "interpolateParams=true", "charset=utf8mb4"}, part) {
				own = append(own, part)
			}
		}
	}
	return own, nil
}

// reason is why an address cannot be read. The errors of net/url quote what they could not read, and that may be a
// password.
func reason(err error) error {
	var quoting *url.Error
	var escape url.EscapeError
	if errors.As(err, &quoting) || errors.As(err, &escape) {
		return text.Of("not a URL").Errorf()
	}
	return err
}
