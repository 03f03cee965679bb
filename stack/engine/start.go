package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"lastitem/say/text"
	"lastitem/stack"
)

// Installed says which program of an engine is missing, with the package to install; nil = none.
func Installed(kind string) error {
	backend := stack.Redis
	if kind == Replicated || kind == Galera {
		backend = stack.MySQL
	}
	if _, err := stack.Find(backend); err != nil || backend == stack.Redis {
		return err
	}
	missing := text.Of("engine: %s is not installed; apt-get install %s")
	if found, _ := stack.Find(backend); !strings.HasPrefix(filepath.Base(found), "mariadb") {
		return missing.Errorf("mariadbd", "mariadb-server")
	}
	if kind != Galera {
		return nil
	}
	if _, err := os.Stat(provider); err != nil {
		return missing.Errorf(provider, "galera-4")
	}
	for _, program := range [][2]string{{"garbd", "galera-arbitrator-4"}, {"rsync", "rsync"}} {
		if _, err := exec.LookPath(program[0]); err != nil {
			return missing.Errorf(program[0], program[1])
		}
	}
	return nil
}

// Start starts the servers and returns when each replica has what its master has. ctx bounds the start only. The
// caller closes the engine.
func Start(ctx context.Context, kind string, o Options) (*Engine, error) {
	servers, err := stack.Start(ctx, stack.Options{Backend: stack.Local, Only: []string{}, Binary: o.Binary})
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	e := &Engine{servers: servers, options: o}
	start := map[string]func(context.Context) error{Cluster: e.startCluster, Sentinel: e.startSentinel,
		Replicated: e.startReplicated, Galera: e.startGalera}[kind]
	if start == nil {
		return nil, errors.Join(fmt.Errorf("engine: %q is none of %v", kind, Kinds), e.Close())
	}
	if err := start(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}
