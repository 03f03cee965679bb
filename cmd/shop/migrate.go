package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"lastitem/internal/backend"
	"lastitem/internal/cli"
	"lastitem/internal/replica"
	"lastitem/say/redact"
	"lastitem/say/text"
)

func newMigrate(lang string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: text.Of("Create or update the tables in the database of SHOP_SQL").In(lang),
		Long: text.Of(`Create or update the tables in the database of SHOP_SQL (or --sql). 'shop serve' does the same when it
starts; several at once are safe. Tables of the same names that lastitem did not make are left alone, with an error.`).In(lang),
		Args: cli.Arguments(0, 0),
	}
	dsn := cmd.Flags().String("sql", "", text.Of("database, instead of SHOP_SQL").In(lang))
	list := cmd.Flags().Bool("list", false, text.Of("only list the migrations that this binary holds").In(lang))
	var out cli.Output
	out.Add(cmd, lang, cli.Text, cli.JSON)
	cli.AddLang(cmd.Flags(), &lang)
	cmd.RunE = cli.Run(func(cmd *cobra.Command, _ []string) error {
		if *list {
			return listMigrations(cmd, &out)
		}
		c, err := replica.Read(nil)
		if err != nil {
			return err
		}
		name := "--sql"
		if *dsn == "" {
			*dsn, name = c.SQL, "SHOP_SQL"
		}
		if *dsn == "" {
			return cli.Usage(text.Of("no database: set SHOP_SQL or --sql"))
		}
		db, err := backend.OpenSQL(*dsn, 2)
		if err != nil {
			return cli.Misuse(fmt.Errorf("%s: %w", name, err))
		}
		applied, err := backend.Migrate(cmd.Context(), db)
		if err != nil {
			return err
		}
		return out.Write(cmd, func(w io.Writer, form string) error {
			if form == cli.JSON {
				return cli.WriteJSON(w, map[string]any{"database": redact.Address(*dsn), "applied": append([]int{}, applied...)})
			}
			_, err := fmt.Fprintf(w, text.Of("%s: %d applied, up to date\n").In(lang), redact.Address(*dsn), len(applied))
			return err
		})
	})
	return cmd
}

// listMigrations prints the migrations of each dialect, in their order.
func listMigrations(cmd *cobra.Command, out *cli.Output) error {
	var names []string
	for _, dialect := range []string{"mysql", "sqlite"} {
		all, err := backend.Migrations(dialect)
		if err != nil {
			return err
		}
		for _, m := range all {
			names = append(names, dialect+"/"+m.Name)
		}
	}
	return out.Write(cmd, func(w io.Writer, form string) error {
		if form == cli.JSON {
			return cli.WriteJSON(w, map[string]any{"migrations": names})
		}
		_, err := fmt.Fprintln(w, strings.Join(names, "\n"))
		return err
	})
}
