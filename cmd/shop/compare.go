package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"lastitem/internal/page"
	"lastitem/loadtest"
	"lastitem/loadtest/delta"
	"lastitem/loadtest/report"
)

// compareFlags are the flags of 'shop compare'.
type compareFlags struct {
	samples string
	force   bool
	worse   float64

	output  output
	lang    string
	noColor bool
}

func newCompare(lang string) *cobra.Command {
	f := compareFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "compare A.json B.json",
		Short: both("Say how two load tests differ, with confidence intervals", "比较两次压测有何不同，给出置信区间").In(lang),
		Long: fmt.Sprintf(both(`Reads the JSON of two load tests (shop loadtest or demo, --out FILE.json) and says for each mode that both have how B differs from
A: accepted per second, p50 and p99 of accepted requests, each with a 95%% interval and without an assumption about the distribution
(Mann-Whitney, Hodges-Lehmann). If the interval covers zero, no difference is shown; that does not mean that there is none.

An interval needs samples, at least %[1]d on each side. --samples rounds takes each repetition as one (run the tests with --repeat 6 or more);
--samples windows takes each window within the runs, which the JSON has too, without the first and the last of a run. Windows of one run
resemble each other, so their intervals are too narrow. Without the flag it is rounds where both sides have enough of them, else windows.
At most 200 windows of a side are taken, evenly spread.

Different plans are an error, unless --force is given. Differences between the environments (cores, versions of Go and of the servers,
replicas, round trip) stand above the table.

Ends with 1 if B contradicts a claim that A does not, with 3 if no figure has an interval, and with 99 if --worse is exceeded.`,
			`读取两次压测的 JSON（shop loadtest 或 demo，--out FILE.json），对两边都有的每个模式，给出 B 与 A 的差别：每秒成交数、成功请求的 p50 和 p99，各带 95%% 置信区间，不假设分布（Mann-Whitney、Hodges-Lehmann）。区间包含零，说明看不出差别，不等于没有差别。

算区间需要样本，每边至少 %[1]d 个。--samples rounds 以每一轮为一个样本（压测时用 --repeat 6 或更多）；--samples windows 以每次运行中的每个时间窗口为一个样本，JSON 里也有，去掉首尾两个。同一次运行里的窗口彼此相似，因此区间偏窄。不给这个选项时，两边轮数都够就用 rounds，否则用 windows。每边最多取 200 个窗口，均匀抽取。

两边方案不同时报错，除非加 --force。环境的差别（核数、Go 和服务器的版本、副本数、往返时间）列在表格上方。

退出码为 1：在 A 中没有被推翻的声明，在 B 中被推翻；为 3：没有一个数字算得出区间；为 99：超出 --worse。`).In(lang), delta.Least),
		Example: `  shop compare before.json after.json
  shop compare before.json after.json --html report.html
  shop compare before.json after.json --worse 10 --markdown "$GITHUB_STEP_SUMMARY"`,
		Args: arguments(2, 2),
		RunE: run(func(cmd *cobra.Command, files []string) error { return runCompare(cmd, &f, files) }),
	}
	set := cmd.Flags()
	set.SortFlags = false
	section(set, both("Comparison", "比较").In(lang), func() {
		set.StringVar(&f.samples, "samples", string(delta.Auto), both("what a sample is: auto, rounds or windows", "以什么为样本：auto（自动）、rounds（轮）或 windows（窗口）").In(lang))
		set.Float64Var(&f.worse, "worse", -1, both("end with 99 if B is shown to be worse by more than this many percent in any figure; -1 is never", "任何一个数字上 B 比 A 差超过这个百分比，就以 99 退出；-1 表示不检查").In(lang))
		set.BoolVar(&f.force, "force", false, both("compare different plans all the same", "方案不同也照样比较").In(lang))
	})
	section(set, both("Output", "输出").In(lang), func() {
		f.output.add(cmd, lang, formText, formJSON, formMarkdown, formHTML)
		f.output.addBesides(cmd, formHTML, formMarkdown)
		addLang(set, &f.lang)
		set.BoolVar(&f.noColor, "no-color", false, noColorHelp.In(lang))
	})
	return cmd
}

// runCompare is the body of the command.
func runCompare(cmd *cobra.Command, f *compareFlags, files []string) error {
	f.lang = f.output.language(cmd, f.lang)
	kind := delta.Samples(f.samples)
	if kind != delta.Auto && kind != delta.Rounds && kind != delta.Windows {
		return usage(both("--samples %q: want auto, rounds or windows", "--samples %q：应为 auto、rounds 或 windows"), f.samples)
	}
	if !(f.worse >= 0) && f.worse != -1 {
		return usage(both("--worse %v: want 0 or more percent, or -1", "--worse %v：应为 0 以上的百分比，或 -1"), f.worse)
	}
	a, err := readComparison(files[0])
	if err != nil {
		return err
	}
	b, err := readComparison(files[1])
	if err != nil {
		return err
	}
	r, err := delta.Of(files[0], a, files[1], b, delta.Options{Samples: kind, Force: f.force})
	var differ *delta.PlansError
	if errors.As(err, &differ) {
		return usage(both("%s: %w; --force compares them all the same", "%s：%w；加 --force 照样比较"), differ.Mode, err)
	}
	if err != nil {
		return err
	}
	r.Command = again("compare "+argument(files[0])+" "+argument(files[1]), cmd.Flags())
	err = f.output.write(cmd, func(w io.Writer, form string) error { return f.report(w, form, r, secretsIn(cmd.Flags())) })
	if err != nil {
		return err
	}
	switch {
	case len(r.Contradicted()) > 0:
		return &exitError{code: exitFailed}
	case f.worse >= 0 && r.WorseThan(f.worse/100):
		return &exitError{code: exitThreshold}
	case !r.Decided():
		return &exitError{code: exitInconclusive}
	}
	return nil
}

// report writes the report in a form.
func (f *compareFlags) report(w io.Writer, form string, r delta.Report, secrets []string) error {
	switch form {
	case formJSON:
		return report.WriteDeltaJSON(w, r)
	case formHTML:
		return report.WriteDeltaPage(w, r, f.lang, secrets)
	case formMarkdown:
		var b strings.Builder
		err := report.WriteDeltaMarkdown(&b, r, f.lang)
		_, failed := io.WriteString(w, page.HidePlain(b.String(), secrets))
		return errors.Join(err, failed)
	}
	return report.WriteDelta(w, r, styleFor(w, f.lang, f.noColor))
}

// only reads one JSON value, after which nothing may follow.
func only(d *json.Decoder, into any) error {
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return both("something follows the JSON", "JSON 之后还有内容").Errorf()
	}
	return nil
}

// readComparison reads the JSON of a load test.
func readComparison(file string) (c loadtest.Comparison, err error) {
	f, err := os.Open(file)
	if err != nil {
		return c, err
	}
	defer func() { _ = f.Close() }()
	if err := only(json.NewDecoder(f), &c); err != nil { // not all at once: it may be no JSON, and endless
		return c, usage(both("%s: not the JSON of a load test: %w", "%s：不是压测的 JSON：%w"), file, err)
	}
	if c.Results == nil {
		return c, usage(both("%s: not the JSON of a load test: it has no results", "%s：不是压测的 JSON：里面没有结果"), file)
	}
	return c, nil
}
