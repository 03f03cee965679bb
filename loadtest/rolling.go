// A rolling update is judged by whether the replacement of replicas under load lost a request: [JudgeRolling] looks at
// the run of one mode, and a [RollingResult] holds all of them. [Together] is the load; the replacement is
// 'shop rolling'.

package loadtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
)

// RollingResult is what 'shop rolling' prints with -o json.
type RollingResult struct {
	Exact  bool           `json:"exact"`         // every replica was replaced, and nothing was lost
	Why    string         `json:"why,omitempty"` // why it is not
	Served map[string]int `json:"served"`        // answers, by replica
	Modes  []RollingMode  `json:"modes"`
}

// RollingMode counts the outcomes of one mode's requests.
type RollingMode struct {
	Mode    string         `json:"mode"`
	Sent    int            `json:"sent"`
	Sold    int            `json:"sold"`
	Answers map[string]int `json:"answers"`           // by code
	Audit   judge.Verdict  `json:"audit,omitempty"`   // VACUOUS if no two requests overlapped
	Missing []string       `json:"missing,omitempty"` // why the audit is VACUOUS or INCONCLUSIVE
	Lost    []string       `json:"lost,omitempty"`    // outcomes that a deploy must not cause
	Error   string         `json:"error,omitempty"`   // the run broke off
}

// Named returns modes of the service that it can run, by their names. missing is the first that it cannot; "" = none.
func (c *Control) Named(ctx context.Context, names []string) (modes []api.Mode, missing string, err error) {
	all, err := c.Modes(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, name := range names {
		at := slices.IndexFunc(all, func(m api.Mode) bool { return m.Name == name })
		if at < 0 || !all[at].Available {
			return nil, name, nil
		}
		modes = append(modes, all[at])
	}
	return modes, "", nil
}

// Together runs a plan for each mode, all at the same time, and returns the results, each with its error.
func Together(ctx context.Context, c *Control, modes []api.Mode, plans []plan.Plan) ([]Result, []error) {
	results, errs := make([]Result, len(modes)), make([]error, len(modes))
	var runs sync.WaitGroup
	for i, m := range modes {
		runs.Go(func() { results[i], errs[i] = Run(ctx, c, m, plans[i], nil) })
	}
	runs.Wait()
	return results, errs
}

// expected are the answers that a deploy may cause: nothing happened, and no request was lost.
var expected = []string{"ok", string(api.LockBusy), string(api.Contended)}

// JudgeRolling judges the run of one mode; err is the error that it broke off with. lang is the language of
// RollingMode.Lost and RollingMode.Error: "zh", else English.
func JudgeRolling(mode string, r Result, err error, lang string) RollingMode {
	m := RollingMode{Mode: mode, Sent: r.Sent, Sold: r.Codes["ok"], Answers: r.Codes}
	if err != nil {
		m.Error = text.ErrorIn(lang, err)
		return m
	}
	for code, n := range r.Codes {
		if !slices.Contains(expected, code) {
			m.Lost = append(m.Lost, fmt.Sprintf("%s %d", code, n))
		}
	}
	if m.Sold == 0 {
		m.Lost = append(m.Lost, text.Of("nothing was sold").In(lang))
	}
	m.Audit = judge.Inconclusive
	for _, v := range r.Verdicts {
		m.Audit = v.Verdict
		m.Missing = v.Missing
		// A fast mode may have had no two requests at the same time, and is VACUOUS; its orders must still match the answers.
		if v.Verdict != judge.Exact && v.Verdict != judge.Vacuous || v.Oversold+v.LostUpdates+v.Leaked != 0 {
			m.Lost = append(m.Lost, fmt.Sprintf(text.Of("the audit says %s").In(lang), v.Verdict))
		}
	}
	slices.Sort(m.Lost)
	return m
}

// Lost returns an error with the lost requests, in both languages; nil = none.
func (r RollingResult) Lost() error {
	var errs []error
	for _, m := range r.Modes {
		switch {
		case m.Error != "":
			errs = append(errs, fmt.Errorf("%s: %s", m.Mode, m.Error))
		case len(m.Lost) > 0:
			errs = append(errs, text.Of("%s lost requests: %s").Errorf(m.Mode, strings.Join(m.Lost, ", ")))
		}
	}
	return errors.Join(errs...)
}

// Servers lists the replicas with their answers, as in "replica 1 30, replica 2 28".
func (r RollingResult) Servers() string { return counts(r.Served) }

// counts returns "a 1, b 2".
func counts(of map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(all, ", ")
}

// texts are the lines of the text, by language.
var texts = text.Table(struct{ mode, why, and, exact string }{"%s: %d [request|requests], %d sold, answers: %s; " +
	"audit %s%s\n", " (%s)", "; ", "EXACT: nothing was lost; served by %s\n"})

// WriteText writes a line for each mode and, if nothing was lost, one for all, in the language lang.
func (r RollingResult) WriteText(w io.Writer, lang string) error {
	said := texts.In(lang)
	for _, m := range r.Modes {
		if m.Error != "" {
			fmt.Fprintf(w, "%s: %s\n", m.Mode, m.Error)
			continue
		}
		why := ""
		if len(m.Missing) > 0 {
			why = fmt.Sprintf(said.why, strings.Join(m.Missing, said.and))
		}
		fmt.Fprint(w, text.Sprintf(said.mode, m.Mode, m.Sent, m.Sold, counts(m.Answers), m.Audit, why))
	}
	if !r.Exact {
		return nil
	}
	_, err := fmt.Fprintf(w, said.exact, r.Servers())
	return err
}
