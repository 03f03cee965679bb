package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lastitem/stack/keeper"
)

// startPostgres fills in s.Postgres. There is no embedded PostgreSQL.
func (s *Stack) startPostgres(ctx context.Context) error {
	path, err := Find(Postgres)
	if err != nil {
		return fmt.Errorf("stack: %w", s.opts.advised(Postgres, err))
	}
	as, err := postgresAccount()
	if err != nil {
		return err
	}
	number, _ := version(path, "--version")
	d := &postgres{program: path, dir: filepath.Join(s.Dir, "postgres"), as: as, password: secret(),
		schemas: s.opts.Schemas, number: number}
	s.Postgres, err = s.procs.launch(ctx, d.server(s.procs.keeper))
	if err == nil {
		s.opts.Log("%s: %s at %s (%s)", s.Postgres.Name, s.Postgres.Kind, s.Postgres.Addr, path)
	}
	return err
}

// postgres is a PostgreSQL on a data directory of its own.
type postgres struct {
	program, dir, password, number string
	schemas                        []string
	as                             *keeper.Account
}

// postgresAccount is who the server runs as, since it refuses to run as root; nil = who we are.
func postgresAccount() (*keeper.Account, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // nil = who we are
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		return &keeper.Account{UID: uint32(uid), GID: uint32(gid)}, errors.Join(errUID, errGID)
	}
	return nil, errors.New("stack: PostgreSQL does not run as root, and there is no user postgres or nobody")
}

// initdb is the program that makes a data directory, of the newest version; "" = there is none.
func initdb() string { return lookUp("initdb") }

// data is the data directory.
func (d *postgres) data() string { return filepath.Join(d.dir, "data") }

// own makes a file or a directory the server's, where the server runs as somebody else.
func (d *postgres) own(path string) error {
	if d.as == nil {
		return nil
	}
	return os.Chown(path, int(d.as.UID), int(d.as.GID))
}

// write writes a file that only the server can read.
func (d *postgres) write(name, text string) (path string, err error) {
	path = filepath.Join(d.dir, name)
	return path, errors.Join(os.WriteFile(path, []byte(text), 0o600), d.own(path))
}

// install makes a data directory, with the one account and the databases.
func (d *postgres) install(ctx context.Context, owner *keeper.Keeper) error {
	if d.as != nil { // its group, nobody else, may pass through the private directory to its own
		if err := errors.Join(os.Chown(owner.Dir, -1, int(d.as.GID)), os.Chmod(owner.Dir, 0o710)); err != nil {
			return fmt.Errorf("stack: %w", err)
		}
	}
	err := errors.Join(os.Mkdir(d.dir, 0o700), d.own(d.dir))
	password, errPassword := d.write("password", d.password)
	databases, errDatabases := d.write("databases.sql", d.sql())
	if err := errors.Join(err, errPassword, errDatabases); err != nil {
		return fmt.Errorf("stack: %w", err)
	}
	program, err := filepath.EvalSymlinks(d.program)
	if err != nil {
		return fmt.Errorf("stack: %w", err)
	}
	installer := filepath.Join(filepath.Dir(program), "initdb") // of the same version
	if _, err := os.Stat(installer); err != nil {
		installer = initdb()
	}
	if err := owner.Run(ctx, "postgres install", keeper.Command{As: d.as, Argv: []string{
		installer, "--pgdata=" + d.data(), "--username=lastitem", "--pwfile=" + password, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-sync",
	}}); err != nil {
		return err
	}
	// A server without clients reads statements, one a line.
	return owner.Run(ctx, "postgres databases", keeper.Command{As: d.as, Argv: []string{
		"sh", "-c", `exec "$0" --single -F -D "$1" postgres <"$2"`, d.program, d.data(), databases,
	}})
}

func (d *postgres) sql() string {
	var all strings.Builder
	for _, name := range append([]string{"lastitem"}, d.schemas...) {
		fmt.Fprintf(&all, "CREATE DATABASE %s\n", name)
	}
	return all.String()
}

// server is the server: small, and without a disk to wait for, since no schedule of the lab tests durability.
func (d *postgres) server(owner *keeper.Keeper) server {
	return server{
		name: "sql", // as every database is called
		kind: "PostgreSQL " + d.number + " (private)",
		url: func(addr string) string {
			return "postgresql://lastitem:" + d.password + "@" + addr + "/lastitem"
		},
		as:      d.as,
		prepare: func(ctx context.Context) error { return d.install(ctx, owner) },
		setup: func(at site) ([]string, error) {
			argv := []string{d.program, "-D", d.data(), "-F"}
			for _, set := range []string{
				"listen_addresses=127.0.0.1", "port=" + at.port(), "unix_socket_directories=", "ssl=off",
				"max_connections=1000", "shared_buffers=64MB", "full_page_writes=off", "jit=off",
				"dynamic_shared_memory_type=mmap", // files in the data directory, which go with it
			} {
				argv = append(argv, "-c", set)
			}
			return argv, nil
		},
		// The last line of the file says "ready" when the server takes clients. It would be another server's that answers
		// on the port without it.
		ready: func(context.Context, string) error {
			pid, err := os.ReadFile(filepath.Join(d.data(), "postmaster.pid"))
			if err == nil && !strings.HasSuffix(strings.TrimSpace(string(pid)), "ready") {
				err = errors.New("postmaster.pid does not say that it is ready")
			}
			return err
		},
		// A server that is killed leaves a segment of shared memory behind.
		grace: 4 * time.Second,
	}
}
