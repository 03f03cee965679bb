package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"lastitem/contract/api"
	"lastitem/internal/cli"
	"lastitem/say/text"
	"lastitem/stack"
	"lastitem/target"
)

// stockFlags are the flags of 'shop stock'.
type stockFlags struct {
	url, token string
	segments   int
	ifNew      bool
	reason     string
	output     cli.Output
	lang       string
}

func newStock(lang string) *cobra.Command {
	f := stockFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "stock PRODUCT [UNITS]",
		Short: text.Of("Show the stock of a product, set it or adjust it").In(lang),
		Long: text.Of(`Shows the stock of a product of a running shop in every store. With UNITS it sets the stock first,
which makes the product if it is new and deletes its orders, locks and idempotency keys; that needs the admin token.
With +20 it adds so many units instead, in every store, while the product is sold, and with -20 it takes so many free
ones; orders and reservations stay.`).In(lang),
		Example: "  shop stock 101\n  shop stock 101 5000\n  shop stock 101 5000 --segments 10\n" +
			"  shop stock 101 +20 --reason delivery\n  shop stock 101 -20 --reason broken",
		Args: cli.Arguments(1, 2),
		RunE: cli.Run(func(cmd *cobra.Command, args []string) error { return runStock(cmd, &f, args) }),
	}
	set := cmd.Flags()
	cli.Flags{
		{"url", &f.url, "http://localhost:8080", urlHelp},
		{"token", &f.token, nil, tokenHelp},
		{"segments", &f.segments, nil, text.Of("split the stock in Redis into so many segments")},
		{"if-new", &f.ifNew, nil, text.Of("leave a product alone that is there already")},
		{"reason", &f.reason, nil, text.Of("why the stock is adjusted, which the ledger shows")},
	}.Add(set, lang)
	f.output.Add(cmd, lang, cli.JSON, cli.Text)
	cli.AddLang(set, &f.lang)
	return cmd
}

// belowZero matches a number that the parser of flags would take for flags.
var belowZero = regexp.MustCompile(`^-[0-9]+$`)

// signed moves the UNITS of 'shop stock' to the end, after a --, if they are below zero. What a flag takes as its value
// stays, and so do the arguments of the other commands.
func signed(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd.Name() != "stock" || slices.Contains(args, "--") {
		return args
	}
	value := func(before string) bool { // before is a flag that takes the next argument
		f := cmd.Flags().Lookup(strings.TrimPrefix(before, "--"))
		return strings.HasPrefix(before, "--") && f != nil && f.NoOptDefVal == ""
	}
	for i, arg := range args {
		if i > 0 && belowZero.MatchString(arg) && !value(args[i-1]) {
			return append(slices.Delete(slices.Clone(args), i, i+1), "--", arg)
		}
	}
	return args
}

func runStock(cmd *cobra.Command, f *stockFlags, args []string) error {
	id, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil || id < 1 {
		return cli.Usage(text.Of("PRODUCT %q: want a number from 1"), args[0])
	}
	adjusts := len(args) == 2 && strings.IndexAny(args[1], "+-") == 0
	switch {
	case f.segments < 0:
		return cli.Usage(text.Of("--segments %d: want a number from 0"), f.segments)
	case (len(args) == 1 || adjusts) && (f.segments > 0 || f.ifNew):
		return cli.Usage(text.Of("--segments and --if-new go with UNITS, to set the stock"))
	case !adjusts && f.reason != "":
		return cli.Usage(text.Of("--reason goes with +UNITS or -UNITS, to adjust the stock"))
	}
	c, err := target.NewShop(f.url, cmp.Or(f.token, adminToken()))
	if err != nil {
		return cli.Misuse(err)
	}
	defer c.Close()
	switch {
	case adjusts:
		err = adjustStock(cmd, c, f, id, args[1])
	case len(args) == 2:
		err = setStock(cmd, c, f, id, args[1])
	}
	if err != nil {
		return err
	}
	p, err := c.Product(cmd.Context(), id)
	if err != nil {
		return err
	}
	return f.output.Write(cmd, func(w io.Writer, form string) error {
		if form == cli.Text {
			return printProduct(w, p, f.lang)
		}
		said, err := json.Marshal(p)
		if err == nil {
			_, err = fmt.Fprintf(w, "%s\n", said)
		}
		return err
	})
}

// printProduct prints the stock of a product, a line per store.
func printProduct(w io.Writer, p api.Product, lang string) error {
	said := fmt.Sprintf(text.Of("product %d\n").In(lang), p.ProductID)
	for _, store := range api.Stores {
		if n, there := p.Stock[store]; there {
			said += fmt.Sprintf("  %-5s  %d\n", store, n)
		}
	}
	_, err := io.WriteString(w, said)
	return err
}

// adjustStock adds units, or takes free ones, once: the target sends a request without an answer again with its key.
func adjustStock(cmd *cobra.Command, c *target.Shop, f *stockFlags, id int64, units string) error {
	n, err := strconv.ParseInt(units, 10, 64)
	if err != nil || n == 0 {
		return cli.Usage(text.Of("UNITS %q: want a number from 0, or how many to add as in +20 or to take as in -20"), units)
	}
	_, err = c.Adjust(cmd.Context(), id, api.Adjust{Delta: n, Reason: f.reason}, "")
	return err
}

func setStock(cmd *cobra.Command, c *target.Shop, f *stockFlags, id int64, units string) error {
	n, err := strconv.ParseInt(units, 10, 64)
	if err != nil || n < 0 {
		return cli.Usage(text.Of("UNITS %q: want a number from 0, or how many to add as in +20 or to take as in -20"), units)
	}
	if f.ifNew {
		if known, err := productIsKnown(cmd.Context(), c, id); known || err != nil {
			return err
		}
	}
	return c.SetStock(cmd.Context(), id, api.SetStock{Stock: n, Segments: f.segments})
}

// productIsKnown says whether the service has the product.
func productIsKnown(ctx context.Context, c *target.Shop, id int64) (bool, error) {
	var p *target.ProblemError
	_, err := c.Product(ctx, id)
	if errors.As(err, &p) && p.Problem.Code == api.UnknownProduct {
		return false, nil
	}
	return err == nil, err
}

// firstProduct is the product that the commands of the documents sell.
const firstProduct = 101

// firstStock makes product 101, with 5000 units, unless it is there: a stack that has just been started has none, and a
// curl of the documents would get 404.
func firstStock(ctx context.Context, s *stack.Stack) error {
	c, err := target.NewShop(s.URL, s.Token)
	if err != nil {
		return err
	}
	defer c.Close()
	if known, err := productIsKnown(ctx, c, firstProduct); known || err != nil {
		return err
	}
	return c.SetStock(ctx, firstProduct, api.SetStock{Stock: 5000})
}
