package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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

func newAudit(lang string) *cobra.Command {
	f := auditFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: both("Judge a product of a running shop from its ledger: stock, orders and idempotency keys", "根据账本判定运行中的服务里的一种商品：库存、订单和幂等键").In(lang),
		Long: both(`Judge a product of a running shop from its ledger: does what was there at the start equal what is left plus what was
ordered, is every order there once, and does no unit belong to two? The ledger is fetched from the shop and judged here. The product may be
being sold meanwhile: if units seem lost, it is read again, for a second.

It exits with 0 if the product is exact, 1 if it is broken, and 3 if the audit is inconclusive (data is missing) or vacuous
(nothing was sold); without a shop at the address it ends with 1, as every command. A store from which nothing was sold does not count if the product was sold from another.`,
			`根据账本判定运行中的服务里的一种商品：初始库存是否等于剩余加已售，每个订单是否恰好一份，有没有一件卖给了两个人。账本从服务取来，在本机判定。商品正在售卖也可以判定：看起来少了库存时会重读，持续一秒。

退出码：精确为 0，出错为 1，无法判定（缺数据）或无效（什么都没卖出）为 3；该地址没有服务时为 1，和其他命令一样。商品如果从别的存储卖出，没有卖出的存储不计。`).In(lang),
		Example: "  shop audit\n  shop audit --product 205 --store sql --lang zh\n  shop audit --product 205 -o json --out audit.json",
		Args:    arguments(0, 0),
		RunE:    run(func(cmd *cobra.Command, _ []string) error { return runAudit(cmd, &f) }),
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVar(&f.url, "url", "http://localhost:8080", urlHelp.In(lang))
	set.StringVar(&f.token, "token", "", both("admin token, if reads are protected (default $"+envToken+")", "管理员令牌，读取受保护时才需要（默认 $"+envToken+"）").In(lang))
	set.Int64Var(&f.product, "product", 101, both("product id", "商品的 id").In(lang))
	set.StringVar(&f.store, "store", "", both("judge one store only: redis, sql or etcd (default all)", "只判定一种存储：redis、sql 或 etcd（默认全部）").In(lang))
	f.output.add(cmd, lang, formText, formJSON)
	addLang(set, &f.lang)
	return cmd
}

// runAudit fetches, judges and prints; the verdict becomes the exit code.
func runAudit(cmd *cobra.Command, f *auditFlags) error {
	f.lang = f.output.language(cmd, f.lang)
	store := api.Store(f.store)
	if f.store != "" && !slices.Contains(api.Stores, store) {
		return usage(both("--store must be redis, sql or etcd, not %q", "--store 应为 redis、sql 或 etcd，不能是 %q"), f.store)
	}
	if f.product < 1 {
		return usage(both("--product %d: want a number from 1", "--product %d：应为 1 以上的数"), f.product)
	}
	control, err := loadtest.NewControl(f.url, cmp.Or(f.token, adminToken()))
	if err != nil {
		return misuse(err)
	}
	defer control.Close()
	reports, err := judgeRunning(cmd.Context(), control, f.product, store, f.lang)
	if cmd.Context().Err() != nil {
		return &exitError{code: exitInterrupted}
	}
	var silent net.Error
	if errors.As(err, &silent) { // no shop is there, as for any other command: not one whose data are missing
		return err
	}
	if err != nil {
		return &exitError{code: exitInconclusive, err: fmt.Errorf("%s: %w", audit.Inconclusive, err)}
	}
	out := auditReport{ProductID: f.product, Verdict: audit.Overall(reports), Reports: reports}
	if err := f.output.write(cmd, func(w io.Writer, form string) error { return out.write(w, form, f.lang) }); err != nil {
		return err
	}
	return exitFor(out.Verdict)
}

// judgeRunning judges one store of a product that may be being sold, or all of them.
func judgeRunning(ctx context.Context, control *loadtest.Control, product int64, store api.Store, lang string) ([]audit.Report, error) {
	return audit.Watch(ctx, func() ([]audit.Report, error) {
		ledger, err := control.Ledger(ctx, product)
		switch {
		case err != nil:
			return nil, err
		case store != "":
			return []audit.Report{audit.Judge(audit.Input{Store: store, Ledger: ledger, Lang: lang})}, nil
		}
		return audit.JudgeLedger(ledger, lang), nil
	})
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
