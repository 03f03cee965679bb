package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lastitem/contract/api"
	"lastitem/internal/cli"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/target"
)

// auditFlags is the command line of 'shop audit'.
type auditFlags struct {
	url, token, lang, store string
	product                 int64
	output                  cli.Output
}

// auditReport is what 'shop audit -o json' prints; GET /products/{id}/audit answers it without the reservations.
type auditReport struct {
	ProductID int64          `json:"product_id"`
	Verdict   judge.Verdict  `json:"verdict"`
	Reports   []judge.Report `json:"reports"`
}

func newAudit(lang string) *cobra.Command {
	f := auditFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: text.Of("Judge a product of a running shop from its ledger: stock, orders and idempotency keys").In(lang),
		Long: text.Of(`Judge a product of a running shop from its ledger: does what was there at the start equal what is left
plus what is held, was ordered or was written off, is every order there once, and does no unit belong to two? Did each
reservation and each payment end once, in time? The ledger and the reservations are fetched from the shop and judged
here. The product may be being sold meanwhile: if units seem lost, it is read again, for a second; reservations that
change are read for five seconds at most.

It exits with 0 if the product is exact, 1 if it is broken, and 3 if the audit is inconclusive (data is missing) or
vacuous (nothing was sold); without a shop at the address it ends with 1, as every command. A store from which nothing
was sold does not count if the product was sold from another.`).In(lang),
		Example: "  shop audit\n  shop audit --product 205 --store sql --lang zh\n  shop audit --product 205 -o json --out " +
			"audit.json",
		Args: cli.Arguments(0, 0),
		RunE: cli.Run(func(cmd *cobra.Command, _ []string) error { return runAudit(cmd, &f) }),
	}
	set := cmd.Flags()
	cli.Flags{
		{"url", &f.url, "http://localhost:8080", urlHelp},
		{"token", &f.token, nil, text.Of("admin token, if reads are protected (default $%s)").With(envToken)},
		{"product", &f.product, int64(101), text.Of("product id")},
		{"store", &f.store, nil, text.Of("judge one store only: redis, sql or etcd (default all)")},
	}.Add(set, lang)
	f.output.Add(cmd, lang, cli.Text, cli.JSON)
	cli.AddLang(set, &f.lang)
	return cmd
}

// runAudit fetches, judges and prints; the verdict becomes the exit code.
func runAudit(cmd *cobra.Command, f *auditFlags) error {
	f.lang = f.output.Language(cmd, f.lang)
	store := api.Store(f.store)
	if f.store != "" && !slices.Contains(api.Stores, store) {
		return cli.Usage(text.Of("--store must be redis, sql or etcd, not %q"), f.store)
	}
	if f.product < 1 {
		return cli.Usage(text.Of("--product %d: want a number from 1"), f.product)
	}
	control, err := target.NewShop(f.url, cmp.Or(f.token, adminToken()))
	if err != nil {
		return cli.Misuse(err)
	}
	defer control.Close()
	reports, err := judgeRunning(cmd.Context(), control, f.product, store, f.lang)
	if cmd.Context().Err() != nil {
		return &cli.Error{Code: cli.ExitInterrupted}
	}
	var silent net.Error
	if errors.As(err, &silent) { // no shop is there, as for any other command: not one whose data are missing
		return err
	}
	if err != nil {
		return &cli.Error{Code: exitInconclusive, Err: fmt.Errorf("%s: %w", judge.Inconclusive, err)}
	}
	out := auditReport{ProductID: f.product, Verdict: judge.Overall(reports), Reports: reports}
	if err := f.output.Write(cmd, func(w io.Writer, form string) error { return out.write(w, form, f.lang) }); err != nil {
		return err
	}
	return cli.EndWith(exitFor(out.Verdict))
}

// judgeRunning judges one store of a product that may be being sold, or all of them.
func judgeRunning(ctx context.Context, control *target.Shop, product int64, store api.Store,
	lang string) ([]judge.Report, error) {
	var ledger *api.Ledger
	reports, err := judge.Watch(ctx, func() (_ []judge.Report, err error) {
		ledger, err = control.Ledger(ctx, product)
		switch {
		case err != nil:
			return nil, err
		case store != "":
			return []judge.Report{judge.Judge(judge.Input{Store: store, Ledger: ledger, Lang: lang})}, nil
		}
		return judge.OfLedger(ledger, lang), nil
	})
	for i, r := range reports {
		if err == nil && ledger.Released[r.Store] {
			reports[i] = withReservations(ctx, control, r)
		}
	}
	return reports, err
}

// withReservations is the report on a store, and on the reservations in it.
func withReservations(ctx context.Context, control *target.Shop, r judge.Report) judge.Report {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // for a million of them
	defer cancel()
	book, err := control.Reservations(ctx, r.ProductID, r.Store)
	if err != nil {
		r.Unchecked = append(r.Unchecked, text.Of("the reservations were not judged: %s").With(text.ErrorIn(r.Lang, err)).
			In(r.Lang))
		return r
	}
	return r.With(judge.Reservations(book, nil, r.Lang))
}

// write prints the reports: as JSON, or a paragraph each.
func (a auditReport) write(w io.Writer, form, lang string) error {
	if form == cli.JSON {
		return cli.WriteJSON(w, a)
	}
	for _, r := range a.Reports {
		if _, err := io.WriteString(w, r.Text(lang)); err != nil {
			return err
		}
	}
	return nil
}

// exitFor is the exit code of a verdict.
func exitFor(v judge.Verdict) int {
	switch v {
	case judge.Exact:
		return cli.ExitOK
	case judge.Inconclusive, judge.Vacuous:
		return exitInconclusive
	}
	return cli.ExitFailed
}
