package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// commit is set by the linker where the build knows it ('make build').
var commit string

// version is the commit that the binary was built from; "+dirty" where the tree had changes, "devel" where unknown.
func version() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	v, dirty := "devel", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+dirty"
			}
		}
	}
	return v + dirty
}

// newVersion prints what --version prints.
func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version: the commit that this binary was built from",
		Args:  arguments(0, 0),
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "shop version %s\n", version())
			return err
		}),
	}
}
