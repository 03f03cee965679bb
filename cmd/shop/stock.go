package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"lastitem/internal/api"
	"lastitem/loadtest"
)

// stockFlags are the flags of 'shop stock'.
type stockFlags struct {
	url, token string
	segments   int
	ifNew      bool
}

func newStock() *cobra.Command {
	var f stockFlags
	cmd := &cobra.Command{
		Use:   "stock PRODUCT [UNITS]",
		Short: "Show the stock of a product, or set it",
		Long: `Shows the stock of a product of a running shop in every store, as JSON. With UNITS it sets the stock first, which makes the
product if it is new and deletes its orders, locks and idempotency keys; that needs the admin token.`,
		Example: "  shop stock 101\n  shop stock 101 5000\n  shop stock 101 5000 --segments 10",
		Args:    arguments(1, 2),
		RunE:    run(func(cmd *cobra.Command, args []string) error { return runStock(cmd, f, args) }),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.url, "url", "http://localhost:8080", "address of the service, or of the balancer before it")
	flags.StringVar(&f.token, "token", "", "admin token (default $"+envToken+")")
	flags.IntVar(&f.segments, "segments", 0, "split the stock in Redis into so many segments")
	flags.BoolVar(&f.ifNew, "if-new", false, "leave a product alone that is there already")
	return cmd
}

func runStock(cmd *cobra.Command, f stockFlags, args []string) error {
	id, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil || id < 1 {
		return usage("PRODUCT %q: want a number from 1", args[0])
	}
	switch {
	case f.segments < 0:
		return usage("--segments %d: want a number from 0", f.segments)
	case len(args) == 1 && (f.segments > 0 || f.ifNew):
		return usage("--segments and --if-new go with UNITS, to set the stock")
	}
	if f.token == "" {
		f.token = os.Getenv(envToken)
	}
	c, err := loadtest.NewControl(f.url, f.token)
	if err != nil {
		return usage("%v", err)
	}
	defer c.Close()
	if len(args) == 2 {
		if err := setStock(cmd, c, f, id, args[1]); err != nil {
			return err
		}
	}
	p, err := c.Product(cmd.Context(), id)
	if err != nil {
		return err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
	return err
}

func setStock(cmd *cobra.Command, c *loadtest.Control, f stockFlags, id int64, units string) error {
	n, err := strconv.ParseInt(units, 10, 64)
	if err != nil || n < 0 {
		return usage("UNITS %q: want a number from 0", units)
	}
	if f.ifNew {
		var p *loadtest.ProblemError
		_, err := c.Product(cmd.Context(), id)
		if err == nil || !errors.As(err, &p) || p.Problem.Code != api.UnknownProduct {
			return err
		}
	}
	return c.SetStock(cmd.Context(), id, n, f.segments)
}
