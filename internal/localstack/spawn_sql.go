package localstack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// SQLServer describes a database server that runs besides the parts of a stack.
type SQLServer struct {
	Name    string   // unique in the stack
	Schemas []string // schemas to create
	Conf    []string // added to its command line
	Env     []string // on top of ours; see [Clock.Env]
}

// RunningSQL is a database server that was started. It may be killed: committed data survives, and [RunningSQL.Restart] starts it again on the
// same data and address.
type RunningSQL struct {
	*Running
	URL string // user:password@tcp(host:port)/lastitem

	s  *Stack
	sv server
}

// SpawnSQL creates a data directory in the private directory, starts a server on it, and returns when it is ready. An error: no server program
// was found, or it did not start.
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
	// A stack with only what a database needs: a directory, options, and the client of the keeper that starts processes.
	own := &Stack{Dir: dir, opts: Options{Schemas: o.Schemas, SQLConf: o.Conf}, keeper: s.keeper}
	if err := own.installMySQL(ctx, path, strings.Contains(said, "MariaDB")); err != nil {
		return nil, err
	}
	r := &RunningSQL{s: s, sv: own.mysqlServer(path, "", true)}
	r.sv.name, r.sv.mortal = o.Name, true
	r.sv.env = func(string) []string { return o.Env }
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

// Restart starts a killed database again, and returns when it is ready.
func (r *RunningSQL) Restart(ctx context.Context) error { return r.start(ctx) }
