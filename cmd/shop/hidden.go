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

	"lastitem/internal/localstack"
	"lastitem/internal/replica"
	"lastitem/internal/text"
)

// newKeeper is the hidden process that owns the children of a local stack. It outlives the process that started it only
// for the cleanup.
func newKeeper() *cobra.Command {
	return &cobra.Command{
		Use:    "keeper",
		Short:  "Own the processes of a local stack (started by other commands)",
		Hidden: true,
		Args:   arguments(0, 0),
		RunE: run(func(*cobra.Command, []string) error {
			return localstack.RunKeeper(os.Stdin, os.Stdout)
		}),
	}
}

// newEmbeddedRedis is the hidden process that stands in for Redis where none is installed.
func newEmbeddedRedis() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:    "embedded-redis",
		Short:  "Serve an embedded Redis until interrupted",
		Hidden: true,
		Args:   arguments(0, 0),
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			m, err := localstack.StartMiniredis(listen)
			if err != nil {
				return err
			}
			defer m.Close()
			fmt.Fprintf(cmd.OutOrStdout(), "embedded Redis at %s\n", m.Addr())
			<-cmd.Context().Done()
			return nil
		}),
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address to listen on")
	return cmd
}

// newEmbeddedKafka is the hidden process that is the Kafka broker of a stack without one of the user's own.
func newEmbeddedKafka() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:    "embedded-kafka",
		Short:  "Serve an embedded Kafka broker until interrupted",
		Hidden: true,
		Args:   arguments(0, 0),
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			c, err := localstack.StartKfake(listen)
			if err != nil {
				return err
			}
			defer c.Close()
			fmt.Fprintf(cmd.OutOrStdout(), "embedded Kafka broker at %s\n", c.ListenAddrs()[0])
			<-cmd.Context().Done()
			return nil
		}),
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address to listen on, at 127.0.0.1")
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
		Args:   arguments(0, 0),
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			if len(targets) == 0 {
				return usage(text.Of("--to names no replica"))
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			c, _ := replica.Read(nil) // for the log alone: what else is wrong, the replicas say
			log := c.Logger(cmd.ErrOrStderr())
			log.Info("listening", "on", l.Addr().String())
			slog.SetDefault(log) // what net/http says
			var options []localstack.BalancerOption
			if keepFailing {
				options = append(options, localstack.KeepFailing)
			}
			if console != "" {
				options = append(options, localstack.WithConsole(console))
			}
			return serveUntil(cmd.Context(), l, localstack.NewBalancer(targets, options...))
		}),
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address to listen on")
	cmd.Flags().StringSliceVar(&targets, "to", nil, "replicas, host:port, separated by commas")
	cmd.Flags().StringVar(&console, "console", "", "console, host:port, for paths that begin with /console/ and for "+
		"browsers")
	cmd.Flags().BoolVar(&keepFailing, "keep-failing", false, "keep a replica that fails in the round")
	return cmd
}

// serveUntil serves until ctx ends, and then lets running requests finish for a second and a half.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		IdleTimeout: 120 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(replica.Problems(l, "")) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 1500*time.Millisecond)
	defer cancel()
	if err := srv.Shutdown(ending); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return srv.Close()
}

// newProbe is the health check of images that hold nothing but this binary.
func newProbe() *cobra.Command {
	return &cobra.Command{
		Use:    "probe URL",
		Short:  "Exit 0 when URL answers 200",
		Hidden: true,
		Args:   arguments(1, 1),
		RunE: run(func(cmd *cobra.Command, args []string) error {
			req, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, args[0], nil)
			if err != nil {
				return misuse(err)
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
