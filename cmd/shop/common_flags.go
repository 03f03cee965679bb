package main

import (
	"os"
	"strings"

	"github.com/spf13/pflag"

	"lastitem/internal/cli"
	"lastitem/say/text"
)

// The texts of flags that several commands have.
var (
	modeHelp    = text.Of("modes: names, globs like 'set*', joined by commas, or all")
	backendHelp = text.Of("auto, embedded or local (real servers only)")
	tokenHelp   = text.Of("admin token (default $%s)").With(envToken)
	urlHelp     = text.Of("address of the service, or of the balancer before it")
	quietHelp   = text.Of("no progress")
	noColorHelp = text.Of("no colour, as with NO_COLOR")
)

// envToken is where the admin token comes from if no flag gives it.
const envToken = "SHOP_ADMIN_TOKEN"

// adminToken is what it says, without the line break that mounted secrets often end with.
func adminToken() string { return strings.TrimSpace(os.Getenv(envToken)) }

// positive refuses a zero that was given to one of the flags.
func positive(set *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if f := set.Lookup(name); f.Changed && (f.Value.String() == "0" || f.Value.String() == "0s") {
			return cli.Usage(notPositive, name, f.Value)
		}
	}
	return nil
}

var notPositive = text.Of("--%s %s: want more than 0, or leave it out for the default")
