package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"lastitem/internal/api"
	"lastitem/internal/localstack"
	"lastitem/loadtest"
	"lastitem/loadtest/report"
)

// comparing returns what to compare: modes of lastitem, or the one service that is not.
func (f *loadtestFlags) comparing(ctx context.Context) (loadtest.Comparing, error) {
	what := loadtest.Comparing{Version: version(), Replicas: f.replicas, Stack: []string{f.url}}
	var err error
	if what.Plans, err = f.plan.plans(); err != nil {
		return what, err
	}
	if f.foreign.Request != "" {
		f.foreign.URL = f.url
		for _, p := range what.Plans {
			if err := f.foreign.Validate(p); err != nil {
				return what, misuse(err)
			}
		}
		what.Modes = []api.Mode{{Name: "foreign", Available: true}}
		what.Run = func(ctx context.Context, _ api.Mode, p loadtest.Plan, progress func(loadtest.Progress)) (loadtest.Result, error) {
			return loadtest.RunForeign(ctx, f.foreign, p, progress)
		}
		return what, nil
	}
	s := service{url: f.url, token: f.token, replicas: f.replicas, lang: f.lang}
	err = s.fill(ctx, &what, f.mode)
	return what, err
}

// service is a running lastitem, as the commands that put load on it know it.
type service struct {
	url, token, lang string
	replicas         int
}

// fill completes what from the service: its modes that pattern selects, and how to run one.
func (s service) fill(ctx context.Context, what *loadtest.Comparing, pattern string) error {
	if s.token == "" {
		s.token = os.Getenv(envToken)
	}
	control, err := loadtest.NewControl(s.url, s.token)
	if err != nil {
		return misuse(err)
	}
	control.Replicas, control.Lang = s.replicas, s.lang
	all, err := control.Modes(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return &exitError{code: exitInterrupted}
		}
		return err
	}
	if what.Modes, err = loadtest.Select(all, pattern); err != nil {
		return misuse(err)
	}
	what.Fits = loadtest.Fits
	what.Run = func(ctx context.Context, m api.Mode, p loadtest.Plan, progress func(loadtest.Progress)) (loadtest.Result, error) {
		return loadtest.Run(ctx, control, m, p, progress)
	}
	return nil
}

// private starts a private stack and runs the load test on it.
func (f *loadtestFlags) private(cmd *cobra.Command, thresholds []loadtest.Threshold, far *farther) error {
	extras, err := extrasFor(f.mode) // before anything is started
	if err != nil {
		return err
	}
	if f.replicas > maxReplicas {
		return usage(both("--replicas %d: want at most %d, each is a process of its own", "--replicas %d：最多 %d，每个副本是一个进程"), f.replicas, maxReplicas)
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
		Replicas: f.replicas, Extras: extras, Token: cmp.Or(f.token, os.Getenv(envToken)), Log: log.to(notes), Lang: f.lang, Advice: adviser(f.lang, "demo", localstack.Auto, true),
	}
	return private(cmd.Context(), o, far, func(ctx context.Context, stack *localstack.Stack) error {
		f.url, f.token = stack.URL, stack.Token
		what, err := f.comparing(ctx)
		if err != nil {
			return err
		}
		what.Stack, what.MarkLogs, what.RTT, what.Servers = log.lines(), stack.MarkLogs, far.rtt, serverKinds(stack)
		return f.compare(ctx, cmd, what, thresholds)
	})
}

// historyFile receives every run's history; nil receives nothing.
type historyFile struct {
	file *os.File
	w    *bufio.Writer
}

// openHistory creates the file at path; nil for "".
func openHistory(path string) (*historyFile, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--history: %w", err)
	}
	return &historyFile{file: f, w: bufio.NewWriter(f)}, nil
}

// each is the callback of loadtest.Compare.
func (h *historyFile) each(r loadtest.Result) error {
	if h == nil {
		return nil
	}
	return report.WriteHistory(h.w, r)
}

func (h *historyFile) close() error {
	if h == nil {
		return nil
	}
	return errors.Join(h.w.Flush(), h.file.Close())
}
