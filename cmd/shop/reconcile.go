package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"lastitem/contract/api"
	"lastitem/internal/cli"
	"lastitem/say/text"
	"lastitem/target"
)

// reconcileFlags is the command line of 'shop reconcile'.
type reconcileFlags struct {
	url, token, lang string
	product          int64
	repair           bool
	every            time.Duration
	output           cli.Output
}

func newReconcile(lang string) *cobra.Command {
	f := reconcileFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "reconcile",
		Short: text.Of("Compare Redis with SQL where tickets are sold, and repair the count").In(lang),
		Long: text.Of(`Compare what Redis and SQL have of a product that is sold by tickets (redis-stream), at one moment
while it sells: stock in SQL = count in Redis + tickets in flight, else units have leaked, or Redis has forgotten
orders. With --repair the difference is added to the count in Redis, once, if two looks agree on it; SQL is never
changed. Where it cannot tell, it refuses and says why.

It exits with 0 if both agree or the count was repaired, and 3 if they differ or nothing can be told.`).In(lang),
		Example: "  shop reconcile\n  shop reconcile --product 205 --repair\n  shop reconcile --every 30s -o json",
		Args:    cli.Arguments(0, 0),
		RunE:    cli.Run(func(cmd *cobra.Command, _ []string) error { return runReconcile(cmd, &f) }),
	}
	set := cmd.Flags()
	cli.Flags{
		{"url", &f.url, "http://localhost:8080", urlHelp},
		{"token", &f.token, nil, tokenHelp},
		{"product", &f.product, int64(101), text.Of("product id")},
		{"repair", &f.repair, nil, text.Of("repair the count in Redis")},
		{"every", &f.every, nil, text.Of("look again and again, with that much time in between")},
	}.Add(set, lang)
	f.output.Add(cmd, lang, cli.Text, cli.JSON)
	cli.AddLang(set, &f.lang)
	return cmd
}

func runReconcile(cmd *cobra.Command, f *reconcileFlags) error {
	f.lang = f.output.Language(cmd, f.lang)
	switch {
	case f.product < 1:
		return cli.Usage(text.Of("--product %d: want a number from 1"), f.product)
	case f.every < 0:
		return cli.Usage(text.Of("--every %s: want a time from 0"), f.every)
	}
	c, err := target.NewShop(f.url, cmp.Or(f.token, adminToken()))
	if err != nil {
		return cli.Misuse(err)
	}
	defer c.Close()
	for {
		err := reconcileOnce(cmd, c, f)
		if cmd.Context().Err() != nil {
			return &cli.Error{Code: cli.ExitInterrupted}
		}
		if f.every == 0 {
			return err
		}
		if err != nil && err.Error() != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "shop: %s\n", text.ErrorIn(f.lang, err))
		}
		select {
		case <-time.After(f.every):
		case <-cmd.Context().Done():
			return &cli.Error{Code: cli.ExitInterrupted}
		}
	}
}

// reconcileOnce looks, and prints what it has seen; what differs then is its exit code.
func reconcileOnce(cmd *cobra.Command, c *target.Shop, f *reconcileFlags) error {
	r, err := c.Reconcile(cmd.Context(), f.product, f.repair)
	if p, refused := errors.AsType[*target.ProblemError](err); refused && p.Problem.Code == api.ReconcileRefused {
		return &cli.Error{Code: exitInconclusive, Err: err}
	}
	if err != nil {
		return err
	}
	err = f.output.Write(cmd, func(w io.Writer, form string) error {
		if form == cli.JSON {
			return json.NewEncoder(w).Encode(r)
		}
		_, err := fmt.Fprintf(w, text.Of("product %d: Redis %d, in flight %d, SQL %d; drift %d (leaked %d, forgotten %d), "+
			"repaired %d, stuck %d\n").In(f.lang), r.ProductID, r.Front, r.InFlight, r.Book, r.Drift, r.Leaked, r.Forgotten,
			r.Repaired, r.Stuck)
		return err
	})
	if err == nil && (r.Drift != r.Repaired || r.Stuck != 0) {
		err = cli.EndWith(exitInconclusive)
	}
	return err
}
