package backend

import (
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"lastitem/internal/api"
	"lastitem/internal/sqlite"
	"lastitem/internal/store"
)

// OpenRedis returns a client for a redis:// URL, for a comma-separated list of them (a cluster), or for a URL of a sentinel
// with ?master_name= (and ?addr= for further sentinels). rediss:// is TLS; the server's certificate is verified, by ?tls_ca= where
// that is given, unless it says ?skip_verify=true. It sends nothing yet.
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
	all.Dialer = withLastLook(all)
	return redis.NewUniversalClient(all), nil
}

func redisOptions(address string) (*redis.UniversalOptions, error) {
	want := api.Text{En: "want redis://host:port/db", Zh: "应为 redis://主机:端口/库号"}
	bad := func(part string, err error) error {
		return api.Text{En: "backend: Redis address %q: %s (%s)", Zh: "backend: Redis 地址 %q：%s（%s）"}.Errorf(Redact(part), reason(err), want)
	}
	if strings.Contains(address, "master_name=") {
		plain, files, err := takeTLSFiles(address)
		if err != nil {
			return nil, bad(address, err)
		}
		o, err := redis.ParseFailoverURL(plain)
		if err != nil {
			return nil, bad(address, err)
		}
		if o.TLSConfig, err = redisTLS(o.TLSConfig, files); err != nil {
			return nil, bad(address, err)
		}
		return &redis.UniversalOptions{
			MasterName: o.MasterName, Addrs: o.SentinelAddrs, SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
			Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig,
		}, nil
	}
	all := &redis.UniversalOptions{}
	for part := range strings.SplitSeq(address, ",") {
		part = strings.TrimSpace(part)
		o, err := redisNode(part)
		if err != nil {
			return nil, bad(part, err)
		}
		if len(all.Addrs) > 0 && (all.TLSConfig == nil) != (o.TLSConfig == nil) {
			return nil, bad(part, api.Text{En: "redis:// and rediss:// in one list", Zh: "redis:// 和 rediss:// 不能混在一个列表里"}.Errorf())
		}
		all.Addrs = append(all.Addrs, o.Addr)
		all.Username, all.Password, all.DB, all.TLSConfig = o.Username, o.Password, o.DB, o.TLSConfig
	}
	return all, nil
}

// redisNode reads the URL of one server.
func redisNode(address string) (*redis.Options, error) {
	plain, files, err := takeTLSFiles(address)
	if err != nil {
		return nil, err
	}
	o, err := redis.ParseURL(plain)
	if err != nil {
		return nil, err
	}
	if o.Network == "unix" {
		return nil, api.Text{En: "sockets are not supported", Zh: "不支持 socket"}.Errorf()
	}
	o.TLSConfig, err = redisTLS(o.TLSConfig, files)
	return o, err
}

// openTries is how often an SQLite file is tried that others are switching to WAL at the same moment; SQLite does not
// wait for that by itself.
const openTries = 100

// OpenSQL returns a database for a MySQL DSN or URL, which it does not connect to yet, or for "sqlite:" and a file, which
// it opens.
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
			return nil, api.Text{En: "backend: open %s: the file cannot be read or written, or not be made", Zh: "backend: 打开 %s：文件无法读写，或无法创建"}.Errorf(Redact(dsn))
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
		return nil, fmt.Errorf("backend: open %s: %w", Redact(dsn), err)
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
			return nil, nil, fmt.Errorf("backend: SQL address %q: %w", dsn, err)
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

// SQLiteFile returns the file that an sqlite: address names, "" for any other. Its error says why no database can be there.
func SQLiteFile(dsn string) (string, error) {
	file, ok := strings.CutPrefix(dsn, "sqlite:")
	if !ok {
		return "", nil
	}
	file = strings.TrimPrefix(file, "//")
	if file == "" || strings.HasPrefix(file, ":") {
		return "", api.Text{En: "backend: SQL address %q: want sqlite:/path/to/file.db, a file that every replica can open", Zh: "backend: SQL 地址 %q：应为 sqlite:/路径/文件.db，即每个副本都能打开的文件"}.Errorf(dsn)
	}
	dir := filepath.Dir(file)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", api.Text{En: "backend: SQL address %q: there is no directory %s", Zh: "backend: SQL 地址 %q：没有目录 %s"}.Errorf(dsn, dir)
	}
	// It is not opened to see: closing it again would end the locks that this process may hold on it.
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return "", api.Text{En: "backend: SQL address %q: it is a directory, want a file in it", Zh: "backend: SQL 地址 %q：这是目录，应为其中的文件"}.Errorf(dsn)
	}
	return file, nil
}

// mysqlConnector makes connections for a MySQL DSN or URL.
func mysqlConnector(dsn string, l link) (sqldriver.Connector, error) {
	cfg, err := parseMySQL(dsn)
	if err != nil {
		return nil, err
	}
	cfg.InterpolateParams = true     // one round trip a statement instead of two
	cfg.ClientFoundRows = false      // affected rows are those that changed: that is how a key which is there already is noticed
	cfg.Logger = &driver.NopLogger{} // errors are returned
	p := l.patience.orDefault()
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = p.Dial, p.SQL, p.SQL
	if l.name != "" {
		cfg.ConnectionAttributes = strings.TrimPrefix(cfg.ConnectionAttributes+",program_name:"+l.name, ",")
	}
	if err := cfg.Apply(driver.Charset("utf8mb4", "")); err != nil {
		return nil, api.Text{En: "backend: SQL address: %w", Zh: "backend: SQL 地址：%w"}.Errorf(err)
	}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, api.Text{En: "backend: SQL address: %w", Zh: "backend: SQL 地址：%w"}.Errorf(err)
	}
	return refusing{connector}, nil
}

// groupConns is how many products' group commits may be under way at a time; others wait, in order.
const groupConns = 16

// openGroups returns the pool of [store.SQL.GroupTx], which does not connect yet.
func openGroups(dsn string, l link) (*sql.DB, error) {
	connector, err := mysqlConnector(dsn, l)
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(store.GroupSessions(connector))
	limit(pool, min(l.conns, groupConns))
	return pool, nil
}

// parseMySQL reads a DSN of go-sql-driver/mysql or a mysql:// URL.
func parseMySQL(dsn string) (*driver.Config, error) {
	want := api.Text{
		En: "want user:password@tcp(host:port)/database, mysql://user:password@host:port/database or sqlite:/path/to/file.db",
		Zh: "应为 用户:密码@tcp(主机:端口)/库名、mysql://用户:密码@主机:端口/库名 或 sqlite:/路径/文件.db",
	}
	if strings.HasPrefix(dsn, "mysql://") {
		u, err := url.Parse(dsn)
		if err != nil || u.Host == "" {
			return nil, api.Text{En: "backend: SQL address: not a URL (%s)", Zh: "backend: SQL 地址：不是 URL（%s）"}.Errorf(want) // the URL may hold a password
		}
		host := u.Host
		if u.Port() == "" {
			host += ":3306"
		}
		cfg, err := driver.ParseDSN("tcp(" + host + ")/" + strings.TrimPrefix(u.EscapedPath(), "/") + "?" + u.RawQuery)
		if err != nil {
			return nil, api.Text{En: "backend: SQL address %q: %w (%s)", Zh: "backend: SQL 地址 %q：%w（%s）"}.Errorf(Redact(dsn), err, want)
		}
		cfg.User = u.User.Username()
		cfg.Passwd, _ = u.User.Password()
		return checkedMySQL(cfg, want)
	}
	cfg, err := driver.ParseDSN(dsn)
	if err != nil {
		return nil, api.Text{En: "backend: SQL address %q: %w (%s)", Zh: "backend: SQL 地址 %q：%w（%s）"}.Errorf(Redact(dsn), err, want)
	}
	return checkedMySQL(cfg, want)
}

// checkedMySQL wants a database, and reads the certificates that the address names.
func checkedMySQL(cfg *driver.Config, want api.Text) (*driver.Config, error) {
	if cfg.DBName == "" {
		return nil, api.Text{En: "backend: SQL address names no database: %s", Zh: "backend: SQL 地址里没有库名：%s"}.Errorf(want)
	}
	if err := mysqlTLS(cfg); err != nil {
		return nil, api.Text{En: "backend: SQL address: %w", Zh: "backend: SQL 地址：%w"}.Errorf(err)
	}
	return cfg, checkSession(cfg.Params)
}

// reason is why an address cannot be read. The errors of net/url quote what they could not read, and that may be a password.
func reason(err error) error {
	var quoting *url.Error
	if errors.As(err, &quoting) {
		return api.Text{En: "not a URL", Zh: "不是 URL"}.Errorf()
	}
	return err
}
