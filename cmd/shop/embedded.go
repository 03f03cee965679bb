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
		Args:   cobra.NoArgs,
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
