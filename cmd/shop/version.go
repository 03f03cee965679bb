package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"lastitem/internal/cli"
	"lastitem/say/text"
)

// release is the version of lastitem, as the tag of the release names it.
const release = "0.1.0"

// version is the release and the commit, such as "0.1.0 (a1b2c3d4e5f6)".
func version() string { return fmt.Sprintf("%s (%s)", release, builtFrom()) }

// commit is set by the linker where the build knows it ('make build').
var commit string

// builtFrom is the commit that the binary was built from; "+dirty" where the tree had changes, "devel" where unknown.
func builtFrom() string {
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
func newVersion(lang string) *cobra.Command {
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "version",
		Short: text.Of("Print the version and the commit that this binary was built from").In(lang),
		Args:  cli.Arguments(0, 0),
	}
	cmd.RunE = cli.Run(func(cmd *cobra.Command, _ []string) error {
		return out.Write(cmd, func(w io.Writer, form string) error {
			if form == cli.JSON {
				return cli.WriteJSON(w, map[string]string{
					"version": release, "commit": builtFrom(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(w, "shop version %s\n", version())
			return err
		})
	})
	out.Add(cmd, lang, cli.Text, cli.JSON)
	cli.AddLang(cmd.Flags(), &lang)
	return cmd
}
