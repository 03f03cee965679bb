package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/internal/cli"
	"lastitem/say/text"
	"lastitem/target"
	"lastitem/target/shopfile"
)

// serviceCheck is the command line of 'shop service'.
type serviceCheck struct {
	flags, check    bool
	url, redis, sql string
	stock           int64
	lang            string
}

func newService(lang string) *cobra.Command {
	f := serviceCheck{lang: lang}
	cmd := &cobra.Command{
		Use:   "service FILE",
		Short: text.Of("Check shop.yaml, the description of a service of your own").In(lang),
		Long: text.Of(`Reads shop.yaml, the file that 'shop loadtest --service' and 'shop lab --service' take, and says the
first mistake with its line. --check makes one purchase step by step at the running service, shows each answer and what
was saved of it, and looks whether one unit and one order moved; it resets the stock first, if the file says how. With
cancel in the file it makes one that is cancelled too, and one that is shipped and not cancelled.
--flags prints the flags that the file stands for, and the fields for which there are none.
docs/shop-yaml.md has all fields.`).
			In(lang),
		Example: "  shop service shop.yaml\n  shop service shop.yaml --check --url http://localhost:9000\n  shop service " +
			"shop.yaml --flags",
		Args: cli.Arguments(1, 1),
		RunE: cli.Run(func(cmd *cobra.Command, args []string) error { return runService(cmd, &f, args[0]) }),
	}
	set := cmd.Flags()
	cli.Flags{
		{"check", &f.check, nil, text.Of("buy at the running service, once and for each of cancel and ship in the " +
			"file once more, and show each step")},
		{"flags", &f.flags, nil, text.Of("print the flags of 'shop loadtest' and 'shop lab' that say the same")},
		{"url", &f.url, nil, text.Of("with --check: the address of the service (default the file's)")},
		{"redis", &f.redis, nil, text.Of("with --check: its Redis (default the file's)")},
		{"sql", &f.sql, nil, text.Of("with --check: its MySQL or MariaDB (default the file's)")},
		{"stock", &f.stock, int64(10), text.Of("with --check: the stock that is set first")},
	}.Add(set, lang)
	cli.AddLang(set, &f.lang)
	cmd.MarkFlagsMutuallyExclusive("check", "flags")
	return cmd
}

func runService(cmd *cobra.Command, f *serviceCheck, path string) error {
	load := loadtestFlags{lang: f.lang}
	load.add(&cobra.Command{})
	load.service.path = path
	for name, value := range map[string]string{"url": f.url, "redis": f.redis, "sql": f.sql} {
		if value != "" {
			_ = load.plan.set.Set(name, value) // texts take any
		}
	}
	if err := load.service.load(load.plan.set); err != nil {
		return err
	}
	load.plan.names = load.service.f.Products
	w := cmd.OutOrStdout()
	if f.flags {
		return writeFlags(w, load.service.file, f.lang)
	}
	if f.check {
		remote, err := load.remote()
		if err != nil {
			return err
		}
		return f.try(cmd.Context(), w, remote)
	}
	if err := checkFile(&load, path); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, text.Of("%s: %d [step|steps] to arrange a buyer, %d to buy; no mistake was found").
		With(path, len(load.service.f.Arrange), max(1, len(load.service.f.Buy))).In(f.lang))
	return err
}

// checkFile looks for mistakes as the lab does, if it can start the service, else as a load test does.
func checkFile(load *loadtestFlags, path string) error {
	if slices.ContainsFunc(load.service.file.Settings, func(x shopfile.Setting) bool { return x.Flag == "serve" }) {
		lab := &cobra.Command{}
		f := labFlags{lang: load.lang}
		f.add(lab)
		f.serve.path = path
		_, err := f.serve.service(lab)
		return err
	}
	_, err := load.remote()
	return err
}

// try makes one purchase and shows it.
func (f *serviceCheck) try(ctx context.Context, w io.Writer, remote *target.Remote) error {
	remote.Watch = func(step string, c target.Call, r target.Reply, saved map[string]string) {
		_, _ = fmt.Fprintf(w, "%s: %s %s\n", step, c.Method, strings.TrimSpace(c.Path+" "+string(c.Body)))
		_, _ = fmt.Fprintf(w, "    %s\n", target.Shown(r))
		for _, name := range slices.Sorted(maps.Keys(saved)) {
			_, _ = fmt.Fprintf(w, "    %s = %s\n", name, saved[name])
		}
	}
	product := int64(101) // as a load test does
	if len(remote.Products) > 0 {
		product = 0
	}
	err := remote.Try(ctx, product, f.stock, 1, target.SettleAtMost)
	switch unfit := new(target.UnfitError); {
	case ctx.Err() != nil:
		return &cli.Error{Code: cli.ExitInterrupted}
	case errors.As(err, &unfit):
		return &cli.Error{Code: exitInconclusive, Err: err}
	case err != nil:
		return cli.Misuse(err)
	}
	sold, _, _ := remote.Tried(product)
	said := text.Of("sold, order %q; the stock fell by 1 and one order came")
	switch {
	case remote.Stock == target.Source{}:
		said = text.Of("sold, order %q; the file does not say where the stock is, so nothing else was looked at")
	case remote.Orders == target.Source{}:
		said = text.Of("sold, order %q; the stock fell by 1, and the file does not say where the orders are")
	}
	_, err = fmt.Fprintln(w, said.With(remote.Read(sold).OrderID).In(f.lang))
	return err
}

// writeFlags writes the command lines that a file stands for, and the fields that none can say.
func writeFlags(w io.Writer, file *shopfile.File, lang string) error {
	var b strings.Builder
	for _, command := range []*cobra.Command{newLoadtest(lang), newLab(lang)} {
		if command.Name() == "lab" && !slices.ContainsFunc(file.Settings, func(x shopfile.Setting) bool {
			return x.Flag == "serve"
		}) {
			continue
		}
		b.WriteString("shop " + command.Name())
		for _, x := range flagsOf(file, command.Flags()) {
			b.WriteString(" \\\n  --" + x.Flag)
			if command.Flags().Lookup(x.Flag).Value.Type() != "bool" {
				b.WriteString(" " + cli.Argument(masked(x.Flag, x.Value)))
			}
		}
		b.WriteString("\n")
	}
	for _, field := range file.Flagless {
		b.WriteString(text.Of("no flag says %s\n").With(field).In(lang))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// flagsOf are the fields that are flags of a command.
func flagsOf(file *shopfile.File, set *pflag.FlagSet) (all []shopfile.Setting) {
	for _, x := range file.Settings {
		if flagOf(set, x) != nil && (x.Field != "buy" && !strings.HasPrefix(x.Field, "buy.") || file.Plain) {
			all = append(all, x)
		}
	}
	names := strings.Join(file.Products, ",")
	if _, err := strconv.Atoi(names); err == nil && set.Lookup("product") != nil { // one number is how many there are
		return append(all, shopfile.Setting{Flag: "product", Value: names})
	}
	if names != "" {
		all = append(all, shopfile.Setting{Flag: "products", Value: names})
	}
	return all
}
