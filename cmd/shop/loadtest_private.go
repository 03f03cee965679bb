package main

import (
	"cmp"
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"lastitem/internal/localstack"
	"lastitem/loadtest"
)

// private starts a private stack and runs the load test on it.
func (f *loadtestFlags) private(cmd *cobra.Command, thresholds []loadtest.Threshold, far *farther) error {
	if _, err := loadtest.Select(modesHere(), f.mode); err != nil { // before anything is started
		return usage("%w", err)
	}
	if f.replicas > maxReplicas {
		return usage("--replicas %d: want at most %d, each is a process of its own", f.replicas, maxReplicas)
	}
	if _, err := f.plan.plans(); err != nil {
		return err
	}
	notes := cmd.ErrOrStderr()
	if f.quiet {
		notes = io.Discard
	}
	var log stackLog
	f.replicas = cmp.Or(f.replicas, 3)
	o := localstack.Options{
		Replicas: f.replicas, Token: cmp.Or(f.token, os.Getenv(envToken)), Log: log.to(notes), Advice: adviser("demo", localstack.Auto, true),
	}
	return private(cmd.Context(), o, far, func(ctx context.Context, stack *localstack.Stack) error {
		f.url, f.token = stack.URL, stack.Token
		what, err := f.comparing(ctx)
		if err != nil {
			return err
		}
		what.Stack, what.MarkLogs, what.RTT = log.lines(), stack.MarkLogs, far.rtt
		return f.compare(ctx, cmd, what, thresholds)
	})
}
