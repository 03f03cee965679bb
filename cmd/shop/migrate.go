package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"lastitem/internal/backend"
)

func newMigrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or update the tables in the database of SHOP_SQL",
		Long: `Create or update the tables in the database of SHOP_SQL (or --sql). 'shop serve' does the same when it starts; several
at once are safe. Tables of the same names that lastitem did not make are left alone, with an error.`,
		Args: arguments(0, 0),
	}
	dsn := cmd.Flags().String("sql", "", "database, instead of SHOP_SQL")
	list := cmd.Flags().Bool("list", false, "only list the migrations that this binary holds")
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		if *list {
			return listMigrations(cmd)
		}
		c, err := readConfig()
		if err != nil {
			return err
		}
		name := "--sql"
		if *dsn == "" {
			*dsn, name = c.SQL, variable("sql")
		}
		if *dsn == "" {
			return usage("no database: set SHOP_SQL or --sql")
		}
		db, err := backend.OpenSQL(*dsn, 2)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		applied, err := backend.Migrate(cmd.Context(), db)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %d applied, up to date\n", backend.Redact(*dsn), len(applied))
		return nil
	})
	return cmd
}

func listMigrations(cmd *cobra.Command) error {
	for _, dialect := range []string{"mysql", "sqlite"} {
		all, err := backend.Migrations(dialect)
		if err != nil {
			return err
		}
		for _, m := range all {
			fmt.Fprintf(cmd.OutOrStdout(), "%s/%s\n", dialect, m.Name)
		}
	}
	return nil
}
