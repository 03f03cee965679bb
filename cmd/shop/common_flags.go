package main

import (
	"os"
	"strings"

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
