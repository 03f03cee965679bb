package localstack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// SQLServer describes a database of its own beside the parts of a stack.
type SQLServer struct {
	Name    string   // unique in the stack
	Schemas []string // that it shall have
	Conf    []string // more of its command line
}

// RunningSQL is a database that was started. Killing it loses nothing that it has promised to keep: [RunningSQL.Restart] starts it again
// on its data and its address.
type RunningSQL struct {
	*Running
	URL string // user:password@tcp(host:port)/lastitem

	s  *Stack
	sv server
}

// SpawnSQL makes a data directory in the private directory, starts a server on it, and returns when it is ready.
func (s *Stack) SpawnSQL(ctx context.Context, o SQLServer) (*RunningSQL, error) {
	path, err := Find(MySQL)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Dir, strings.ReplaceAll(o.Name, " ", "-"))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("localstack: %w", err)
	}
	_, said := version(path, "--version")
	// Only what a database needs: its directory, what is in it, and the keeper of processes.
	own := &Stack{Dir: dir, opts: Options{Schemas: o.Schemas, SQLConf: o.Conf}, leash: s.leash}
	if err := own.installMySQL(ctx, path, strings.Contains(said, "MariaDB")); err != nil {
		return nil, err
	}
	r := &RunningSQL{s: s, sv: own.mysqlServer(path, "", true)}
	r.sv.name, r.sv.mortal = o.Name, true
	err = r.start(ctx)
	return r, err
}

func (r *RunningSQL) start(ctx context.Context) error {
	started, err := r.s.launch(ctx, r.sv)
	if err != nil {
		return err
	}
	x, _ := r.s.partNamed(r.sv.name)
	r.Running, r.URL, r.sv.addr = &Running{Addr: started.Addr, PID: started.PID, p: x.p}, started.URL, started.Addr
	return nil
}

// Restart starts a database that was killed, and returns when it is ready.
func (r *RunningSQL) Restart(ctx context.Context) error { return r.start(ctx) }
