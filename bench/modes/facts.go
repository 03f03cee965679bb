package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"lastitem/bench/machine"
)

// facts are what the numbers depend on.
type facts struct {
	Date    string   `json:"date"`
	Commit  string   `json:"commit"`
	Go      string   `json:"go"`
	System  string   `json:"system"`
	CPU     string   `json:"cpu"`
	Cores   int      `json:"cores"`
	Load    string   `json:"load_average,omitempty"` // when the run began
	Edge    string   `json:"balancer"`
	Servers []string `json:"servers"` // with what a commit means to them, as they say
}

func (b *bench) gatherFacts(ctx context.Context) facts {
	return facts{
		Date: time.Now().UTC().Format(time.RFC3339), Commit: commit, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		CPU: machine.CPU(), Cores: runtime.NumCPU(), Load: machine.Load(), Edge: b.sites.stack.Balancer.Kind,
		Servers: b.sites.durability(ctx),
	}
}

func (f facts) print(out io.Writer) {
	fmt.Fprintf(out, "%s\n%s, %s, %d cores (%s), %s, load average %s at the start\ncommit %s, %s\n",
		strings.Join(f.Servers, "\n"), f.Edge, f.Go, f.Cores, f.CPU, f.System, f.Load, f.Commit, f.Date)
}
