package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"lastitem/say/redact"
	"lastitem/say/text"
	"lastitem/stack/keeper"
	"lastitem/stack/postgres"
)

// pidFile is written by the server, into the private directory.
const pidFile = "mysql.pid"

// startSQL fills in s.SQL. The embedded one is a file that the replicas open, not a process.
func (s *Stack) startSQL(ctx context.Context) error {
	if s.opts.SQL != "" {
		s.SQL = given("sql", s.opts.SQL)
		s.opts.Log("%s: %s, as given", "sql", redact.Address(s.opts.SQL))
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
		d := newDatabase(path, s.Dir, s.opts.SQLData, s.opts.Schemas, s.opts.SQLConf)
		if s.SQL, why, err = s.launchReal(ctx, d.server(s.procs.keeper), path); err != nil || why == "" {
			return err
		}
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

// startPostgres fills in s.Postgres. There is no embedded PostgreSQL.
func (s *Stack) startPostgres(ctx context.Context) error {
	path, err := Find(Postgres)
	if err != nil {
		return fmt.Errorf("stack: %w", s.opts.advised(Postgres, err))
	}
	const first = "lastitem"
	d, err := postgres.New(path, lookUp("initdb"), filepath.Join(s.Dir, "postgres"), secret(),
		append([]string{first}, s.opts.Schemas...))
	if err != nil {
		return err
	}
	number, _ := version(path, "--version")
	s.Postgres, err = s.procs.launch(ctx, server{
		name:    "sql", // as every database is called
		kind:    "PostgreSQL " + number + " (private)",
		url:     func(addr string) string { return d.URL(addr, first) },
		as:      d.As,
		prepare: func(ctx context.Context) error { return d.Install(ctx, s.procs.keeper) },
		setup:   func(at site) ([]string, error) { return d.Argv(at.port()), nil },
		ready:   func(context.Context, string) error { return d.Ready() },
		grace:   grace, // a server that is killed leaves a segment of shared memory behind
	})
	if err == nil {
		s.opts.Log("%s: %s at %s (%s)", s.Postgres.Name, s.Postgres.Kind, s.Postgres.Addr, path)
	}
	return err
}

// database is a real MySQL or MariaDB and its data directory.
type database struct {
	program, dir, data string // dir is for its other files
	schemas, conf      []string
	number             string // the version
	maria, fresh       bool   // fresh: there were no data
}

// newDatabase looks at the program. With data "" the data directory is in dir.
func newDatabase(program, dir, data string, schemas, conf []string) *database {
	number, said := version(program, "--version")
	return &database{
		program: program, dir: dir, data: cmp.Or(data, filepath.Join(dir, "mysql")), schemas: schemas, conf: conf,
		maria: strings.Contains(said, "MariaDB"), number: number,
	}
}

// install fills the data directory with the system tables, where it is empty.
func (d *database) install(ctx context.Context, owner *keeper.Keeper) error {
	files, err := os.ReadDir(d.data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("stack: %w", err)
	}
	if d.fresh = len(files) == 0; !d.fresh {
		return nil
	}
	// A server that begins empties the directory of temporary tables: two that share one destroy each other's.
	data, temp := "--datadir="+d.data, "--tmpdir="+d.dir
	argv := []string{d.program, "--no-defaults", "--initialize-insecure", data, temp}
	if d.maria {
		installer := lookUp("mariadb-install-db")
		if installer == "" {
			installer = lookUp("mysql_install_db")
		}
		if installer == "" {
			return errors.New("stack: mariadb-install-db not found; it belongs to the package of " + d.program)
		}
		// "socket" lets root in by his user id only: no account without a password is reachable over TCP.
		argv = []string{installer, "--no-defaults", data, temp, "--auth-root-authentication-method=socket", "--skip-test-db"}
	}
	return owner.Run(ctx, "sql install", keeper.Command{Argv: append(argv, asRoot()...)})
}

// asRoot is the option without which MySQL does not run as root.
func asRoot() []string {
	if me, err := user.Current(); err == nil && me.Uid == "0" {
		return []string{"--user=root"}
	}
	return nil
}

// server is a real MySQL or MariaDB on a fresh data directory: small, for it starts faster then, but as durable as by
// default, since the cost of a durable commit is one of the things this project measures.
func (d *database) server(owner *keeper.Keeper) server {
	kind := "MySQL "
	if d.maria {
		kind = "MariaDB "
	}
	password := secret()
	return server{
		name:    "sql",
		kind:    kind + d.number + " (private)",
		url:     func(addr string) string { return "lastitem:" + password + "@tcp(" + addr + ")/lastitem" },
		prepare: func(ctx context.Context) error { return d.install(ctx, owner) },
		setup: func(at site) ([]string, error) {
			_ = os.Remove(filepath.Join(d.dir, pidFile)) // of a server that was killed
			argv := append(append(d.argv(), "--port="+at.port()), asRoot()...)
			if !d.fresh {
				return argv, nil
			}
			init := filepath.Join(d.dir, "init.sql")
			return append(argv, "--init-file="+init), os.WriteFile(init, []byte(initSQL(password, d.schemas)), 0o600)
		},
		// A server writes its pid-file when it has its port. After init-file it greets each client, with
		// its protocol number in the fifth byte. Without the file, another server with that port may have greeted.
		ready: func(ctx context.Context, addr string) error {
			if _, err := os.Stat(filepath.Join(d.dir, pidFile)); err != nil {
				return err
			}
			return answers(ctx, addr, "", func(line []byte) bool { return len(line) > 4 && line[4] == 10 })
		},
	}
}

// argv is the command line but for the port. "loose" options are skipped by a server that does not know them.
func (d *database) argv() []string {
	return append([]string{
		d.program, "--no-defaults",
		"--datadir=" + d.data,
		"--socket=" + filepath.Join(d.dir, "mysql.sock"),
		"--pid-file=" + filepath.Join(d.dir, pidFile),
		"--tmpdir=" + d.dir,
		"--secure-file-priv=" + d.dir,
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
	}, d.conf...) // last: of an option given twice the last one counts
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
