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

func newCompare() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare A.json B.json",
		Short: "Say how two load tests differ, with confidence intervals",
		Long: `Reads the JSON of two load tests (shop loadtest or demo, --out FILE.json) and says for each mode that both have how B differs from
A: accepted per second, p50 and p99 of accepted requests, each with a 95% interval and without an assumption about the distribution
(Mann-Whitney, Hodges-Lehmann). If the interval covers zero, no difference is shown; that does not mean that there is none.

An interval needs samples, at least ` + fmt.Sprint(delta.Least) + ` on each side. --samples rounds takes each repetition as one (run the tests with --repeat 6 or more);
--samples windows takes each window within the runs, which the JSON has too, without the first and the last of a run. Windows of one run
resemble each other, so their intervals are too narrow. Without the flag it is rounds where both sides have enough of them, else windows.
At most 200 windows of a side are taken, evenly spread.

Different plans are an error, unless --force is given. Differences between the environments (cores, versions of Go and of the servers,
replicas, round trip) stand above the table.

Ends with 1 if a claim that held in A does not hold in B, with 3 if no figure has an interval, and with 99 if --worse is exceeded.`,
		Example: `  shop compare before.json after.json
  shop compare before.json after.json --html report.html
  shop compare before.json after.json --worse 10 --markdown "$GITHUB_STEP_SUMMARY"`,
		Args: arguments(2, 2),
		RunE: run(func(cmd *cobra.Command, files []string) error { return runCompare(cmd, &f, files) }),
	}
	set := cmd.Flags()
	set.SortFlags = false
	section(set, "Comparison", func() {
		set.StringVar(&f.samples, "samples", string(delta.Auto), "what a sample is: auto, rounds or windows")
		set.Float64Var(&f.worse, "worse", -1, "end with 99 if B is shown to be worse by more than this many percent in any figure; -1 is never")
		set.BoolVar(&f.force, "force", false, "compare different plans all the same")
	})
	section(set, "Output", func() {
		f.output.add(cmd, formText, formJSON, formMarkdown, formHTML)
		f.output.addBesides(cmd, formHTML, formMarkdown)
		addLang(set, &f.lang)
		set.BoolVar(&f.noColor, "no-color", false, "no colour, as with NO_COLOR")
	})
	return cmd
}

// runCompare is the body of the command.
func runCompare(cmd *cobra.Command, f *compareFlags, files []string) error {
	if err := checkLang(f.lang); err != nil {
		return err
	}
	f.lang = f.output.language(cmd, f.lang)
	kind := delta.Samples(f.samples)
	if kind != delta.Auto && kind != delta.Rounds && kind != delta.Windows {
		return usage("--samples %q: want auto, rounds or windows", f.samples)
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
		return usage("%s: %w; --force compares them all the same", differ.Mode, err)
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

// readComparison reads the JSON of a load test.
func readComparison(file string) (c loadtest.Comparison, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, usage("%s: not the JSON of a load test: %w", file, err)
	}
	if c.Results == nil {
		return c, usage("%s: not the JSON of a load test: it has no results", file)
	}
	return c, nil
}
