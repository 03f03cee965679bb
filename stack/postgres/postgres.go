// Package postgres makes a private PostgreSQL: who it runs as, its data directory with one account and the databases,
// its command line, and how to tell that it is ready. Start with [New].
package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"lastitem/stack/keeper"
)

// Database is a PostgreSQL on a data directory of its own. It is small, and waits for no disk: whoever wants to test
// durability must not use it.
type Database struct {
	Program   string          // the server
	Installer string          // initdb, of the same version
	Dir       string          // for all files; it is made
	Databases []string        // that are made
	As        *keeper.Account // nil = who we are

	password string
}

// User is the only account, a superuser.
const User = "lastitem"

// New describes a database whose account has a password. It looks for initdb beside the server, else takes installer.
func New(program, installer, dir, password string, databases []string) (*Database, error) {
	as, err := account()
	if err != nil {
		return nil, err
	}
	if file, err := filepath.EvalSymlinks(program); err == nil {
		beside := filepath.Join(filepath.Dir(file), "initdb")
		if _, err := os.Stat(beside); err == nil {
			installer = beside
		}
	}
	return &Database{Program: program, Installer: installer, Dir: dir, Databases: databases, As: as,
		password: password}, nil
}

// account is who the server runs as, since it refuses to run as root; nil = who we are.
func account() (*keeper.Account, error) {
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

func (d *Database) data() string { return filepath.Join(d.Dir, "data") }

// own makes a file or a directory the server's, where the server runs as somebody else.
func (d *Database) own(path string) error {
	if d.As == nil {
		return nil
	}
	return os.Chown(path, int(d.As.UID), int(d.As.GID))
}

// write writes a file that only the server can read.
func (d *Database) write(name, text string) (path string, err error) {
	path = filepath.Join(d.Dir, name)
	return path, errors.Join(os.WriteFile(path, []byte(text), 0o600), d.own(path))
}

// Install makes the data directory.
func (d *Database) Install(ctx context.Context, owner *keeper.Keeper) error {
	if d.As != nil { // its group, nobody else, may pass through the private directory to its own
		if err := errors.Join(os.Chown(owner.Dir, -1, int(d.As.GID)), os.Chmod(owner.Dir, 0o710)); err != nil {
			return fmt.Errorf("stack: %w", err)
		}
	}
	err := errors.Join(os.Mkdir(d.Dir, 0o700), d.own(d.Dir))
	password, errPassword := d.write("password", d.password)
	databases, errDatabases := d.write("databases.sql", d.sql())
	if err := errors.Join(err, errPassword, errDatabases); err != nil {
		return fmt.Errorf("stack: %w", err)
	}
	err = owner.Run(ctx, "postgres install", keeper.Command{As: d.As, Argv: []string{
		d.Installer, "--pgdata=" + d.data(), "--username=" + User, "--pwfile=" + password, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-sync",
	}})
	if err != nil {
		return err
	}
	// A server without clients reads statements, one a line.
	return owner.Run(ctx, "postgres databases", keeper.Command{As: d.As, Argv: []string{
		"sh", "-c", `exec "$0" --single -F -D "$1" postgres <"$2"`, d.Program, d.data(), databases,
	}})
}

func (d *Database) sql() string {
	var all strings.Builder
	for _, name := range d.Databases {
		fmt.Fprintf(&all, "CREATE DATABASE %s\n", name)
	}
	return all.String()
}

// URL leads to a database of the server at an address.
func (d *Database) URL(addr, database string) string {
	return "postgresql://" + User + ":" + d.password + "@" + addr + "/" + database
}

// Argv is the command line of the server on a port of 127.0.0.1.
func (d *Database) Argv(port string) []string {
	argv := []string{d.Program, "-D", d.data(), "-F"}
	for _, set := range []string{
		"listen_addresses=127.0.0.1", "port=" + port, "unix_socket_directories=", "ssl=off",
		"max_connections=1000", "shared_buffers=64MB", "full_page_writes=off", "jit=off",
		"dynamic_shared_memory_type=mmap", // files in the data directory, which go with it
	} {
		argv = append(argv, "-c", set)
	}
	return argv
}

// Ready returns nil when the server takes clients: it then says so at the end of a file. Without the file, another
// server may have the port.
func (d *Database) Ready() error {
	pid, err := os.ReadFile(filepath.Join(d.data(), "postmaster.pid"))
	if err == nil && !strings.HasSuffix(strings.TrimSpace(string(pid)), "ready") {
		err = errors.New("postmaster.pid does not say that it is ready")
	}
	return err
}
