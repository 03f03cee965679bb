package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"lastitem/internal/localstack"
)

// newBalance is the hidden process that stands in for nginx where none is installed.
func newBalance() *cobra.Command {
	var listen string
	var targets []string
	var keepFailing bool
	cmd := &cobra.Command{
		Use:    "balance",
		Short:  "Send HTTP requests to several replicas in turn until interrupted",
		Hidden: true,
		Args:   arguments(0, 0),
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			if len(targets) == 0 {
				return usage("--to names no replica")
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "balancer at %s\n", l.Addr())
			var options []localstack.BalancerOption
			if keepFailing {
				options = append(options, localstack.KeepFailing)
			}
			return serveUntil(cmd.Context(), l, localstack.NewBalancer(targets, options...))
		}),
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address to listen on")
	cmd.Flags().StringSliceVar(&targets, "to", nil, "replicas, host:port, separated by commas")
	cmd.Flags().BoolVar(&keepFailing, "keep-failing", false, "keep a replica that fails in the round")
	return cmd
}

// serveUntil serves until ctx ends, and then lets running requests finish for a second and a half.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 120 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(problemListener{Listener: l}) }()
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
