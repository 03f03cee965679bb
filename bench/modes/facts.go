package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"lastitem/bench/machine"
)

// facts are the conditions of the numbers.
type facts struct {
	machine.Facts
	Edge    string   `json:"balancer"`
	Servers []string `json:"servers"` // with their own durability settings
}

func (b *bench) gatherFacts(ctx context.Context) facts {
	return facts{machine.Gather(commit), b.sites.stack.Balancer.Kind, b.sites.durability(ctx)}
}

func (f facts) print(out io.Writer) {
	fmt.Fprintf(out, "%s\n%s, %s\ncommit %s, %s\n", strings.Join(f.Servers, "\n"), f.Edge, f.Machine(), f.Commit, f.Date)
}
