package main

import (
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"lastitem/internal/backend"
	"lastitem/internal/cli"
	"lastitem/internal/replica"
	"lastitem/say/text"
)

func newServe(lang string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: text.Of("Run one replica of the shop").In(lang),
		Long: text.Of(`Run one replica of the shop, on the backends that its settings name. 'shop up' runs a whole stack.

Each setting is a flag and an environment variable; the flag comes before the variable, and the variable before the
default. Other users of the machine can read a flag's value, so give passwords by variables, or in files:
SHOP_REDIS_FILE names one. SIGTERM and Ctrl-C end the replica with exit code 0, after the requests in flight.`).In(lang),
		Example: "  SHOP_REDIS=redis://localhost:6379/0 shop serve\n  shop serve --sql sqlite:/tmp/shop.db --listen :9000 " +
			"--lock-ttl 5s",
		Args: cli.Arguments(0, 0),
	}
	given := givenSettings{}
	given.add(cmd.Flags(), lang)
	cli.Section(cmd.Flags(), text.Of("Language").In(lang), func() { cli.AddLang(cmd.Flags(), &lang) })
	var c replica.Config
	body := cli.Run(func(cmd *cobra.Command, _ []string) (err error) {
		if c, err = replica.Read(given); err != nil {
			return err
		}
		if err := c.Validate(); err != nil {
			return err
		}
		return serve(cmd, c)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := body(cmd, args)
		var e *cli.Error
		if c.LogFormat == "json" && errors.As(err, &e) && e.Err != nil { // to the last line
			c.Logger(cmd.ErrOrStderr()).Error("shop ends", "err", e.Err)
			return &cli.Error{Code: e.Code}
		}
		return err
	}
	return cmd
}

// serve runs a replica until the command's context ends.
func serve(cmd *cobra.Command, c replica.Config) error {
	log := c.Logger(cmd.ErrOrStderr())
	for _, u := range unknownSettings(os.Environ()) {
		log.Warn("unknown setting", "name", u.name, "nearest", u.nearest)
	}
	backend.LibraryLogs(log) // their loggers belong to the whole process, and so does this command
	slog.SetDefault(log)
	return replica.Run(cmd.Context(), c, replica.Options{Log: log, Version: version()})
}
