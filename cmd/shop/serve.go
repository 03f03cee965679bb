package main

import (
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"lastitem/internal/backend"
	"lastitem/internal/replica"
)

func newServe(lang string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: both("Run one replica of the shop", "运行服务的一个副本").In(lang),
		Long: both(`Run one replica of the shop, on the backends that its settings name. 'shop up' runs a whole stack.

Each setting is a flag and an environment variable; the flag comes before the variable, and the variable before the default. Other
users of the machine can read a flag's value, so give passwords by variables, or in files: SHOP_REDIS_FILE names one. SIGTERM and
Ctrl-C end the replica with exit code 0, after the requests in flight.`,
			`运行服务的一个副本，用哪些后端由配置项指定。整套环境用 'shop up'。

每个配置项既是命令行选项，也是环境变量；优先级：命令行选项 > 环境变量 > 默认值。同一台机器上的其他用户看得到命令行选项的值，所以密码请用环境变量给，或写在文件里，用 SHOP_REDIS_FILE 这样的变量指明文件。收到 SIGTERM 或 Ctrl-C 后，处理完在途的请求再以 0 退出。`).In(lang),
		Example: "  SHOP_REDIS=redis://localhost:6379/0 shop serve\n  shop serve --sql sqlite:/tmp/shop.db --listen :9000 --lock-ttl 5s",
		Args:    arguments(0, 0),
	}
	given := givenSettings{}
	given.add(cmd.Flags(), lang)
	section(cmd.Flags(), both("Language", "语言").In(lang), func() { addLang(cmd.Flags(), &lang) })
	var c replica.Config
	body := run(func(cmd *cobra.Command, _ []string) (err error) {
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
		var e *exitError
		if c.LogFormat == "json" && errors.As(err, &e) && e.err != nil { // to the last line
			c.Logger(cmd.ErrOrStderr()).Error("shop ends", "err", e.err)
			return &exitError{code: e.code}
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
