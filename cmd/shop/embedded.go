package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"lastitem/internal/localstack"
)

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
