package main

import (
	"os"

	"github.com/spf13/cobra"

	"lastitem/internal/localstack"
)

// newKeeper is the hidden process that owns the children of a local stack and outlives whoever started them by just as
// long as it takes to clean up.
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
