package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/compare"
	layout "lastitem/say/report"
	"lastitem/say/text"
)

//go:embed page.tmpl
var pageText string

// pageTemplates has the template of the page's body for each language, with its texts.
var pageTemplates = func() map[string]*template.Template {
	all := map[string]*template.Template{}
	for _, lang := range text.Languages {
		say := func(en string) string { return text.Known(en).In(lang) }
		all[lang] = template.Must(template.New("page").Funcs(template.FuncMap{"say": say, "kept": layout.Kept,
			"grouped": layout.Grouped}).Parse(pageText))
	}
	return all
}()

// pageView is the data of the template.
type pageView struct {
	Eyebrow, Title, Tone, Sentence, First string
	Thresholds                            []compare.Checked
	Verdicts, Answers                     gridView
	Signs                                 []string
	Findings                              []noteView
	Noise                                 []string
	Rates, Latencies, Curves              template.HTML
	ModesTitle                            string
	Modes                                 []modeView
	Environment                           []factView
	PlanJSON                              string
	Again, AgainNotes                     []string
}

// noteView is a finding with the class that colours it.
type noteView struct {
	Tone, Text string
	Log        []string
}

// factView is a name with one text or several.
type factView struct {
	Name  string
	Texts []string
}

// gridView is the data of a table. Code is set if the first column has the names of modes.
type gridView struct {
	Title string
	Heads []cellView
	Rows  []rowView
	Code  bool
}

type rowView struct {
	Cells []cellView
	Notes []string
}

type cellView struct {
	Text, Tone string
	Right      bool
}

// tones maps the colours of the text to classes of the page.
var tones = map[string]string{red: "bad", green: "good", yellow: "warm", dim: "soft"}

// view turns a grid into the data of a table.
func (g grid) view() gridView {
	var v gridView
	for _, c := range g.columns {
		v.Heads = append(v.Heads, cellView{Text: oneLine(c.head), Right: c.right})
	}
	for _, r := range g.rows {
		var row rowView
		for _, note := range r.notes {
			row.Notes = append(row.Notes, spaced(note))
		}
		for i, c := range r.cells {
			row.Cells = append(row.Cells, cellView{Text: layout.Grouped(c.text), Tone: tones[c.color],
				Right: g.columns[i].right})
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

// spaced undoes [kept]: a page is narrower than a terminal, so its lines break between the parts of an order.
func spaced(note string) string { return strings.ReplaceAll(note, "\u00a0", " ") }

// WritePage writes the comparison as a single HTML file: verdicts and thresholds, charts, environment, and how to
// repeat the runs. secrets are tokens and passwords; the page has none of them, even if the output of a run did.
func WritePage(w io.Writer, c compare.Comparison, lang string, secrets []string) error {
	view := pageOf(c, lang)
	var body, whole strings.Builder
	if err := pageTemplates[lang].Execute(&body, view); err != nil {
		return err
	}
	p := layout.Page{Lang: lang, Title: view.Title, Body: template.HTML(body.String())} //nolint:gosec // made by html/template
	if err := p.Write(&whole); err != nil {
		return err
	}
	_, err := io.WriteString(w, layout.Hide(whole.String(), secrets))
	return err
}

// pageOf collects the data of the page.
func pageOf(c compare.Comparison, lang string) pageView {
	v := pageView{Thresholds: c.Thresholds, Signs: signs(c, lang),
		Noise: append(slices.Clone(c.Instead), noiseLines(c, lang)...)}
	v.Title = text.Of("Load test of %d modes").With(len(c.Summaries)).In(lang)
	v.ModesTitle = text.Of("Mode by mode").In(lang)
	if len(c.Summaries) == 1 {
		v.Title, v.ModesTitle = text.Of("Load test of %s").With(c.Summaries[0].Mode).In(lang), text.Of("The run").In(lang)
	}
	v.Eyebrow = c.Environment.Time.UTC().Format("2006-01-02 15:04 UTC") + " · lastitem " + c.Environment.Version
	v.Tone, v.Sentence = sentence(c, lang)
	uncrossed := c
	uncrossed.Crossed = nil // crossed thresholds have their own table
	all := findings(uncrossed, lang)
	v.First = all[0].text
	for _, f := range all[1:] {
		v.Findings = append(v.Findings, noteView{Tone: tones[f.color], Text: f.text, Log: f.log})
	}
	v.Verdicts, v.Answers = soldGrid(c, lang).view(), answeredGrid(c, lang).view()
	v.Verdicts.Code, v.Answers.Code = true, true
	v.Rates, v.Latencies, v.Curves = rateBars(c, lang), latencyBars(c, lang), allCurves(c, lang)
	for _, s := range c.Summaries {
		v.Modes = append(v.Modes, modeOf(c, s, lang))
	}
	v.Environment = environmentFacts(c, lang)
	if len(c.Plans) > 0 {
		plans, err := json.MarshalIndent(c.Plans, "", "  ")
		if err == nil {
			v.PlanJSON = string(plans)
		}
	}
	v.Again, v.AgainNotes = again(c, lang)
	return v
}

// sentence returns the outcome in one sentence, in agreement with the exit code.
func sentence(c compare.Comparison, lang string) (tone, said string) {
	switch c.ExitCode() {
	case compare.ExitConfirmed:
		if foreign(c) {
			return "good", text.Of("The stock was deducted exactly.").In(lang)
		}
		return "good", text.Of("Every claim held.").In(lang)
	case compare.ExitContradicted:
		if foreign(c) {
			return "bad", text.Of("The stock was not deducted exactly.").In(lang)
		}
		return "bad", text.Of("A claim does not hold.").In(lang)
	case compare.ExitThreshold:
		return "bad", text.Of("A threshold was crossed.").In(lang)
	case compare.ExitInterrupted:
		return "warm", text.Of("Interrupted: the figures are partial.").In(lang)
	}
	return "warm", text.Of("Something could not be decided.").In(lang)
}

// environmentFacts returns the facts about the environment without which the numbers mean little.
func environmentFacts(c compare.Comparison, lang string) []factView {
	e := c.Environment
	var facts []factView
	fact := func(name text.Text, texts ...string) {
		facts = append(facts, factView{Name: name.In(lang), Texts: texts})
	}
	fact(text.Of("time"), e.Time.Format(time.RFC3339))
	fact(text.Plain("lastitem"), e.Version)
	fact(text.Plain("Go"), e.Go+" "+e.OS+"/"+e.Arch)
	machine := text.Of("%d [core|cores], GOMAXPROCS %d").With(e.CPUs, e.GOMAXPROCS).In(lang)
	if e.CPU != "" {
		machine = e.CPU + text.Of(", ").In(lang) + machine
	}
	fact(text.Of("machine"), machine)
	if e.Replicas > 0 {
		fact(text.Of("replicas"), strconv.Itoa(e.Replicas))
	}
	if len(c.Stack) > 0 {
		fact(text.Of("servers"), c.Stack...)
	}
	var plans, seeds []string
	for _, p := range c.Plans {
		plans = append(plans, layout.Grouped(planLine(p, e, lang)))
		if seed := strconv.FormatUint(p.Seed, 10); !slices.Contains(seeds, seed) {
			seeds = append(seeds, seed)
		}
	}
	fact(text.Of("plan"), plans...)
	fact(text.Of("seed"), seeds...)
	return facts
}

// again says how to repeat the comparison: the commit, the command, and remarks about them.
func again(c compare.Comparison, lang string) (lines, notes []string) {
	if c.Command == "" {
		return nil, nil
	}
	commit, dirty := strings.CutSuffix(c.Environment.Version, "+dirty")
	switch {
	case commit == "" || commit == "devel":
		notes = append(notes, text.Of("The binary does not know the commit that it was built from.").In(lang))
	case dirty:
		notes = append(notes, text.Of("The binary was built from %s with changes that are not committed.").
			With(commit).In(lang))
		fallthrough
	default:
		lines = append(lines, "git checkout "+commit, "make build")
	}
	return append(lines, c.Command), append(notes, text.Of("The admin token is read from SHOP_ADMIN_TOKEN; passwords "+
		"are written ***.").In(lang))
}

// shownRun returns the run that a summary shows.
func shownRun(c compare.Comparison, s compare.Summary) (loadtest.Result, bool) {
	for _, r := range c.Results {
		if r.Mode == s.Mode && r.Plan.Name == s.Plan && r.Store == s.Store && r.Repetition == s.Worst {
			return r, true
		}
	}
	return loadtest.Result{}, false
}

// toneOf returns the class that colours a verdict.
func toneOf(v judge.Verdict) string { return tones[verdictColor(v)] }

// inMillis formats a duration in milliseconds with three digits.
func inMillis(d time.Duration) string { return layout.Short(ms(d)) }

// ms converts a duration to milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// windowText formats the length of a window.
func windowText(d time.Duration) string { return fmt.Sprint(d) }
