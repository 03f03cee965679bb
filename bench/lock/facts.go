package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"lastitem/bench/machine"
	"lastitem/stack"
)

// facts are the conditions of the numbers.
type facts struct {
	machine.Facts
	Redis    string            `json:"redis"`
	Pinned   string            `json:"pinned"`   // whether redis-server has a CPU of its own
	Versions map[string]string `json:"versions"` // of the libraries
}

// peers are the modules whose versions are reported.
var peers = []string{
	"github.com/redis/go-redis/v9", "github.com/go-redsync/redsync/v4", "github.com/bsm/redislock",
	"github.com/redis/rueidis", redissonName,
}

func gatherFacts(server stack.Service, redissonVersion string) facts {
	f := facts{Facts: machine.Gather(commit), Redis: server.Kind, Versions: map[string]string{}}
	if redissonVersion != "" {
		f.Versions[redissonName] = redissonVersion
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			for _, p := range peers {
				if m.Path == p {
					f.Versions[p] = m.Version
				}
			}
		}
	}
	return f
}

func (f facts) libraries() string {
	var all []string
	for _, p := range peers {
		if v := f.Versions[p]; v != "" {
			all = append(all, shortName(p)+" "+v)
		}
	}
	return strings.Join(all, ", ")
}

// shortName returns redsync for github.com/go-redsync/redsync/v4.
func shortName(module string) string {
	parts := strings.Split(module, "/")
	if last := parts[len(parts)-1]; !strings.HasPrefix(last, "v") {
		return last
	}
	return parts[len(parts)-2]
}

func (f facts) print(out io.Writer) {
	fmt.Fprintf(out, "%s (%s), %s\n%s\ncommit %s, %s\n", f.Redis, f.Pinned, f.Machine(), f.libraries(), f.Commit, f.Date)
}
