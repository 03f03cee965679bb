package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/loadtest"
)

// auditFlags is the command line of 'shop audit'.
type auditFlags struct {
	url, token, lang, store string
	product                 int64
	output                  output
}

// auditReport is what 'shop audit -o json' prints, and GET /products/{id}/audit answers.
type auditReport struct {
	ProductID int64          `json:"product_id"`
	Verdict   audit.Verdict  `json:"verdict"`
	Reports   []audit.Report `json:"reports"`
}

func newAudit() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Judge a product of a running shop from its ledger: stock, orders and idempotency keys",
		Long: `Judge a product of a running shop from its ledger: does what was there at the start equal what is left plus what was
ordered, is every order there once, and does no unit belong to two? The ledger is fetched from the shop and judged here.

It exits with 0 if the product is exact, 1 if it is broken, and 3 if the audit is inconclusive (data is missing) or vacuous
(nothing was sold). A store from which nothing was sold does not count if the product was sold from another.`,
		Example: "  shop audit\n  shop audit --product 205 --store sql --lang zh\n  shop audit --product 205 -o json --out audit.json",
		Args:    arguments(0, 0),
		RunE:    run(func(cmd *cobra.Command, _ []string) error { return runAudit(cmd, &f) }),
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVar(&f.url, "url", "http://localhost:8080", "address of the service, or of the balancer before it")
	set.StringVar(&f.token, "token", "", "admin token, if reads are protected (default $"+envToken+")")
	set.Int64Var(&f.product, "product", 101, "product id")
	set.StringVar(&f.store, "store", "", "judge one store only: redis, sql or etcd (default all)")
	f.output.add(cmd, formText, formJSON)
	f.output.addOldForms(cmd, formJSON)
	addLang(set, &f.lang)
	return cmd
}

// runAudit fetches, judges and prints; the verdict becomes the exit code.
func runAudit(cmd *cobra.Command, f *auditFlags) error {
	if err := checkLang(f.lang); err != nil {
		return err
	}
	f.lang = f.output.language(cmd, f.lang)
	store := api.Store(f.store)
	if f.store != "" && !slices.Contains(api.Stores, store) {
		return usage("--store must be redis, sql or etcd, not %q", f.store)
	}
	if f.product < 1 {
		return usage("--product %d: want a number from 1", f.product)
	}
	control, err := loadtest.NewControl(f.url, cmp.Or(f.token, os.Getenv(envToken)))
	if err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	defer control.Close()
	ledger, err := control.Ledger(cmd.Context(), f.product)
	if cmd.Context().Err() != nil {
		return &exitError{code: exitInterrupted}
	}
	if err != nil {
		return &exitError{code: exitInconclusive, err: fmt.Errorf("%s: %w", audit.Inconclusive, err)}
	}
	var reports []audit.Report
	if store != "" {
		reports = []audit.Report{audit.Judge(audit.Input{Store: store, Ledger: ledger, Lang: f.lang})}
	} else {
		reports = audit.JudgeLedger(ledger, f.lang)
	}
	out := auditReport{ProductID: f.product, Verdict: audit.Overall(reports), Reports: reports}
	if err := f.output.write(cmd, func(w io.Writer, form string) error { return out.write(w, form, f.lang) }); err != nil {
		return err
	}
	return exitFor(out.Verdict)
}

// write prints the reports: as JSON, or a paragraph each.
func (a auditReport) write(w io.Writer, form, lang string) error {
	if form == formJSON {
		return writeIndented(w, a)
	}
	for _, r := range a.Reports {
		if _, err := io.WriteString(w, r.Text(lang)); err != nil {
			return err
		}
	}
	return nil
}

// exitFor turns a verdict into the exit code of the command; nil for exact.
func exitFor(v audit.Verdict) error {
	switch v {
	case audit.Exact:
		return nil
	case audit.Inconclusive, audit.Vacuous:
		return &exitError{code: exitInconclusive}
	default:
		return &exitError{code: exitFailed}
	}
}
