package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// arguments wants as many arguments as the Use line of the command says; cobra's own words for it count them, and name none.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return fmt.Errorf("an argument is missing: want shop %s", cmd.Use)
		case len(args) <= most:
			return nil
		case most == 0 && cmd.Flags().Lookup("mode") != nil:
			return fmt.Errorf("unexpected argument %q: modes are chosen with --mode", args[0])
		case most == 0:
			return fmt.Errorf("unexpected argument %q: shop %s takes flags only", args[0], cmd.Name())
		}
		return fmt.Errorf("unexpected argument %q: want shop %s", args[most], cmd.Use)
	}
}
