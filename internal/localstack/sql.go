package localstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"lastitem/internal/redact"
	"lastitem/internal/text"
)

// pidFile is written by the server, into the private directory.
const pidFile = "mysql.pid"

// startSQL fills in s.SQL. The embedded one is a file that the replicas open, not a process.
func (s *Stack) startSQL(ctx context.Context) error {
	if s.opts.SQL != "" {
		s.SQL = given("sql", s.opts.SQL)
		s.opts.Log("sql: %s, as given", redact.Address(s.opts.SQL))
		if strings.HasPrefix(s.opts.SQL, "sqlite:") {
			s.lack(MySQL, s.opts.tell(s.opts.advised(MySQL, text.Of("the database given is SQLite").Errorf())))
		}
		return nil
	}
	path, why, err := s.opts.choose(MySQL)
	if err != nil {
		return err
	}
	if path != "" {
		if s.SQL, err = s.startMySQL(ctx, path); err == nil {
			s.opts.Log("sql: %s at %s (%s)", s.SQL.Kind, s.SQL.Addr, path)
			return nil
		}
		if s.opts.Backend == Local || ctx.Err() != nil {
			return err
		}
		why = s.opts.tell(err)
		s.insteadOf("sql", "SQLite", filepath.Base(path), why)
	}
	file := filepath.Join(s.Dir, "lastitem.db")
	s.SQL = Service{Name: "sql", Kind: "embedded SQLite", URL: "sqlite:" + file}
	s.opts.Log("sql: %s in %s, because: %s", s.SQL.Kind, file, why)
	lacks := s.opts.findMySQL()
	if lacks == nil { // it is installed, and did not start
		lacks = s.opts.advised(MySQL, errors.New(firstLine(why)))
	}
	s.lack(MySQL, s.opts.tell(lacks))
	return nil
}

// startMySQL makes a data directory and starts a server on it.
func (s *Stack) startMySQL(ctx context.Context, path string) (Service, error) {
	number, said := version(path, "--version")
	maria := strings.Contains(said, "MariaDB")
	kind := "MySQL " + number + " (private)"
	if maria {
		kind = "MariaDB " + number + " (private)"
	}
	files, err := os.ReadDir(s.mysqlData())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Service{}, fmt.Errorf("localstack: %w", err)
	}
	fresh := len(files) == 0
	if fresh {
		if err := s.installMySQL(ctx, path, maria); err != nil {
			return Service{}, err
		}
	}
	return s.launch(ctx, s.mysqlServer(path, kind, fresh))
}

// mysqlData is the data directory.
func (s *Stack) mysqlData() string { return cmp.Or(s.opts.SQLData, filepath.Join(s.Dir, "mysql")) }

// installMySQL fills the data directory with the system tables.
func (s *Stack) installMySQL(ctx context.Context, path string, maria bool) error {
	// A server that begins empties the directory of temporary tables: two that share one destroy each other's.
	data, temp := "--datadir="+s.mysqlData(), "--tmpdir="+s.Dir
	argv := []string{path, "--no-defaults", "--initialize-insecure", data, temp}
	if maria {
		installer := lookUp("mariadb-install-db")
		if installer == "" {
			installer = lookUp("mysql_install_db")
		}
		if installer == "" {
			return errors.New("localstack: mariadb-install-db not found; it belongs to the package of " + path)
		}
		// "socket" lets root in by his user id only: no account without a password is reachable over TCP.
		argv = []string{installer, "--no-defaults", data, temp, "--auth-root-authentication-method=socket", "--skip-test-db"}
	}
	return s.keeper.run(ctx, "sql install", append(argv, asRoot()...))
}

// asRoot is the option without which MySQL does not run as root.
func asRoot() []string {
	if me, err := user.Current(); err == nil && me.Uid == "0" {
		return []string{"--user=root"}
	}
	return nil
}

// mysqlServer is a real MySQL or MariaDB on a fresh data directory: small, for it starts faster then, but as durable as by
// default, since the cost of a durable commit is one of the things this project measures.
func (s *Stack) mysqlServer(path, kind string, fresh bool) server {
	password := secret()
	return server{
		name: "sql",
		kind: kind,
		url:  func(addr string) string { return "lastitem:" + password + "@tcp(" + addr + ")/lastitem" },
		setup: func(addr string) ([]string, error) {
			_, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			forget(filepath.Join(s.Dir, pidFile))
			argv := append(append(s.mysqlArgv(path), "--port="+port), asRoot()...)
			if !fresh {
				return argv, nil
			}
			init := filepath.Join(s.Dir, "init.sql")
			return append(argv, "--init-file="+init), os.WriteFile(init, []byte(initSQL(password, s.opts.Schemas)), 0o600)
		},
		// A server writes its pid-file when it has its port. After init-file it greets each client, with
		// its protocol number in the fifth byte. Without the file, another server with that port may have greeted.
		ready: func(ctx context.Context, addr string) error {
			if _, err := os.Stat(filepath.Join(s.Dir, pidFile)); err != nil {
				return err
			}
			return answers(ctx, addr, "", func(line []byte) bool { return len(line) > 4 && line[4] == 10 })
		},
	}
}

// mysqlArgv is the command line but for the port. "loose" options are skipped by a server that does not know them.
func (s *Stack) mysqlArgv(path string) []string {
	return append([]string{
		path, "--no-defaults",
		"--datadir=" + s.mysqlData(),
		"--socket=" + filepath.Join(s.Dir, "mysql.sock"),
		"--pid-file=" + filepath.Join(s.Dir, pidFile),
		"--tmpdir=" + s.Dir,
		"--secure-file-priv=" + s.Dir,
		"--bind-address=127.0.0.1",
		"--skip-name-resolve",
		"--max-connections=500",
		"--character-set-server=utf8mb4",
		"--innodb-flush-log-at-trx-commit=1",
		"--innodb-buffer-pool-size=64M",
		"--performance-schema=OFF",
		"--skip-log-bin",
		"--loose-mysqlx=OFF",                    // MySQL: no second port
		"--loose-aria-pagecache-buffer-size=8M", // MariaDB
	}, s.opts.SQLConf...) // last: of an option given twice the last one counts
}

// initSQL makes the databases and the one account that may come in over TCP; a statement a line, as init-file wants it.
func initSQL(password string, schemas []string) string {
	var more strings.Builder
	for _, name := range schemas {
		fmt.Fprintf(&more, "CREATE DATABASE IF NOT EXISTS %s CHARACTER SET utf8mb4;\n", name)
	}
	return more.String() + fmt.Sprintf(`CREATE DATABASE IF NOT EXISTS lastitem CHARACTER SET utf8mb4;
CREATE USER IF NOT EXISTS 'lastitem'@'127.0.0.1' IDENTIFIED BY '%s';
GRANT ALL PRIVILEGES ON *.* TO 'lastitem'@'127.0.0.1' WITH GRANT OPTION;
`, password)
}
