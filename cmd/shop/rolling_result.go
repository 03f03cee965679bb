package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/loadtest"
)

// rolled is the result of 'shop rolling', and what it prints with -o json.
type rolled struct {
	Exact  bool           `json:"exact"`  // every replica was replaced, and nothing was lost
	Served map[string]int `json:"served"` // answers, by replica
	Modes  []rolledMode   `json:"modes"`

	everyReplica bool  // all replicas must have served
	err          error // the load did not begin
}

// rolledMode counts the outcomes of one mode's requests.
type rolledMode struct {
	Mode    string         `json:"mode"`
	Sent    int            `json:"sent"`
	Sold    int            `json:"sold"`
	Answers map[string]int `json:"answers"`         // by code
	Audit   audit.Verdict  `json:"audit,omitempty"` // VACUOUS if the stock was not sold out
	Lost    []string       `json:"lost,omitempty"`  // outcomes that a deploy must not cause
	Error   string         `json:"error,omitempty"` // the run broke off
}

// expected are the answers that a deploy may cause: nothing happened, and nothing is wrong.
var expected = []string{"ok", string(api.LockBusy), string(api.Contended)}

// judgeRolling judges the outcomes of one mode's requests.
func judgeRolling(mode string, r loadtest.Result, err error) rolledMode {
	m := rolledMode{Mode: mode, Sent: r.Sent, Sold: r.Codes["ok"], Answers: r.Codes}
	if err != nil {
		m.Error = err.Error()
		return m
	}
	for code, n := range r.Codes {
		if !slices.Contains(expected, code) {
			m.Lost = append(m.Lost, fmt.Sprintf("%s %d", code, n))
		}
	}
	if m.Sold == 0 {
		m.Lost = append(m.Lost, "nothing was sold")
	}
	m.Audit = audit.Inconclusive
	for _, v := range r.Verdicts {
		m.Audit = v.Verdict
		// A run that never met an empty stock is VACUOUS to the judge, but its orders are the answers all the same.
		if v.Verdict != audit.Exact && v.Verdict != audit.Vacuous || v.Oversold+v.LostUpdates+v.Leaked != 0 {
			m.Lost = append(m.Lost, fmt.Sprintf("the audit says %s", v.Verdict))
		}
	}
	slices.Sort(m.Lost)
	return m
}

// report writes the result, and returns an error if anything was lost.
func (f *rollingFlags) report(cmd *cobra.Command, r rolled) error {
	if r.err != nil {
		return r.err
	}
	err := r.lost()
	if err == nil && r.everyReplica && len(r.Served) != rolledReplicas {
		err = vacuous(both("the requests were served by %s, want every replica", "处理请求的副本：%s；应为全部副本"), r.servers())
	}
	r.Exact = err == nil
	return errors.Join(err, f.output.write(cmd, func(w io.Writer, form string) error {
		if form == formJSON {
			return writeIndented(w, r)
		}
		return r.text(w, f.lang)
	}))
}

// lost is an error that names what was lost, nil = nothing.
func (r rolled) lost() error {
	var errs []error
	for _, m := range r.Modes {
		switch {
		case m.Error != "":
			errs = append(errs, fmt.Errorf("%s: %s", m.Mode, m.Error))
		case len(m.Lost) > 0:
			errs = append(errs, both("%s lost requests: %s", "%s 丢了请求：%s").Errorf(m.Mode, strings.Join(m.Lost, ", ")))
		}
	}
	return errors.Join(errs...)
}

// servers lists the replicas with their answers.
func (r rolled) servers() string { return counts(r.Served) }

// counts writes "a 1, b 2".
func counts(of map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(all, ", ")
}

// rollingTexts are the lines of the text, by language.
var rollingTexts = map[string]struct{ mode, exact, replaced string }{
	"en": {"%s: %d requests, %d sold, answers: %s; audit %s\n", "EXACT: nothing was lost; served by %s\n", "replica %d replaced in %.1f s, pid %d"},
	"zh": {"%s：%d 个请求，卖出 %d 件，应答：%s；审计 %s\n", "EXACT：什么都没丢；各副本的应答数：%s\n", "副本 %d 已替换，用时 %.1f 秒，pid %d"},
}

func (r rolled) text(w io.Writer, lang string) error {
	texts := rollingTexts[lang]
	for _, m := range r.Modes {
		if m.Error != "" {
			fmt.Fprintf(w, "%s: %s\n", m.Mode, m.Error)
			continue
		}
		fmt.Fprintf(w, texts.mode, m.Mode, m.Sent, m.Sold, counts(m.Answers), m.Audit)
	}
	if !r.Exact {
		return nil
	}
	_, err := fmt.Fprintf(w, texts.exact, r.servers())
	return err
}
