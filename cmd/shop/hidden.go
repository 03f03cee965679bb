package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"lastitem/internal/cli"
	"lastitem/internal/replica"
	"lastitem/say/text"
	"lastitem/stack"
	"lastitem/stack/keeper"
)

// newKeeper is the hidden process that owns the children of a local stack. It outlives the process that started it only
// for the cleanup.
func newKeeper() *cobra.Command {
	return &cobra.Command{
		Use:    "keeper",
		Short:  "Own the processes of a local stack (started by other commands)",
		Hidden: true,
		Args:   cli.Arguments(0, 0),
		RunE: cli.Run(func(*cobra.Command, []string) error {
			return keeper.Run(os.Stdin, os.Stdout)
		}),
	}
}

// newEmbedded are the hidden processes that stand in for servers of which the user has none.
func newEmbedded() []*cobra.Command {
	return []*cobra.Command{
		embedded("embedded-redis", "Redis", "address to listen on", func(listen string) (string, func(), error) {
			m, err := stack.StartMiniredis(listen)
			if err != nil {
				return "", nil, err
			}
			return m.Addr(), m.Close, nil
		}),
		embedded("embedded-kafka", "Kafka broker", "address to listen on, at 127.0.0.1",
			func(listen string) (string, func(), error) {
				c, err := stack.StartKfake(listen)
				if err != nil {
					return "", nil, err
				}
				return c.ListenAddrs()[0], c.Close, nil
			}),
	}
}

// embedded is a command that serves until it is interrupted.
func embedded(name, what, where string,
	start func(listen string) (addr string, end func(), err error)) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use: name, Short: "Serve an embedded " + what + " until interrupted", Hidden: true, Args: cli.Arguments(0, 0),
		RunE: cli.Run(func(cmd *cobra.Command, _ []string) error {
			addr, end, err := start(listen)
			if err != nil {
				return err
			}
			defer end()
			fmt.Fprintf(cmd.OutOrStdout(), "embedded %s at %s\n", what, addr)
			<-cmd.Context().Done()
			return nil
		}),
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", where)
	return cmd
}

// newBalance is the hidden process that stands in for nginx where none is installed.
func newBalance() *cobra.Command {
	var listen, console string
	var targets []string
	var keepFailing bool
	cmd := &cobra.Command{
		Use:    "balance",
		Short:  "Send HTTP requests to several replicas in turn until interrupted",
		Hidden: true,
		Args:   cli.Arguments(0, 0),
		RunE: cli.Run(func(cmd *cobra.Command, _ []string) error {
			if len(targets) == 0 {
				return cli.Usage(text.Of("--to names no replica"))
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			c, _ := replica.Read(nil) // for the log alone: what else is wrong, the replicas say
			log := c.Logger(cmd.ErrOrStderr())
			log.Info("listening", "on", l.Addr().String())
			slog.SetDefault(log) // what net/http says
			var options []stack.BalancerOption
			if keepFailing {
				options = append(options, stack.KeepFailing)
			}
			if console != "" {
				options = append(options, stack.WithConsole(console))
			}
			return serveBalancer(cmd.Context(), l, stack.NewBalancer(targets, options...))
		}),
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address to listen on")
	cmd.Flags().StringSliceVar(&targets, "to", nil, "replicas, host:port, separated by commas")
	cmd.Flags().StringVar(&console, "console", "", "console, host:port, for paths that begin with /console/ and for "+
		"browsers")
	cmd.Flags().BoolVar(&keepFailing, "keep-failing", false, "keep a replica that fails in the round")
	return cmd
}

// serveUntil serves until ctx ends, and then lets running requests finish for so long; atEnd is called first, to end
// streams, which a shutdown would wait for.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler, grace time.Duration, atEnd func()) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		IdleTimeout: 120 * time.Second}
	srv.RegisterOnShutdown(atEnd)
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := srv.Shutdown(ending); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return srv.Close()
}

// inBackground serves until ctx ends, or until the end that it returns is called, which waits for it.
func inBackground(ctx context.Context, serve func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		serve(ctx)
	}()
	return func() { cancel(); <-ended }
}

// serveBalancer serves a balancer until ctx ends.
func serveBalancer(ctx context.Context, l net.Listener, b http.Handler) error {
	return serveUntil(ctx, replica.Problems(l, ""), b, 1500*time.Millisecond, func() {})
}

// newProbe is the health check of images that hold nothing but this binary.
func newProbe() *cobra.Command {
	return &cobra.Command{
		Use:    "probe URL",
		Short:  "Exit 0 when URL answers 200",
		Hidden: true,
		Args:   cli.Arguments(1, 1),
		RunE: cli.Run(func(cmd *cobra.Command, args []string) error {
			req, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, args[0], nil)
			if err != nil {
				return cli.Misuse(err)
			}
			resp, err := (&http.Client{Timeout: 3 * time.Second}).Do(req)
			if err != nil {
				return err
			}
			defer func() { _ = resp.Body.Close() }()
			if resp.StatusCode != http.StatusOK {
				return text.Of("%s answers %s").Errorf(args[0], resp.Status)
			}
			return nil
		}),
	}
}
