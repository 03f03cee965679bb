package tell

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab"
	"lastitem/faultlab/rig"
	"lastitem/say/report"
	"lastitem/say/text"
)

// PageOptions holds the texts that a page shows besides the result.
type PageOptions struct {
	Lang    string // "en" or "zh"
	Version string // the commit of the binary
	Command string // the command line that makes the result again
	Made    time.Time
	Secrets []string // tokens and passwords that the page must not contain
}

//go:embed sheet.tmpl
var sheetText string

var sheetTemplate = template.Must(template.New("lab").Funcs(template.FuncMap{"kept": report.Kept}).Parse(sheetText))

// sheetWords has the words that stand in the template.
type sheetWords struct{ Outcomes, Mode, Schedules, Explain, Untold, Environment, Again string }

var sheetTexts = text.Table(sheetWords{
	Outcomes: "Outcomes", Mode: "mode",
	Schedules: "Schedules that broke something",
	Explain: "For each letter one schedule, command by command: what the replicas A, B and C sent, what their clients " +
		"saw, and where the lab struck.",
	Untold: "No story was recorded; the schedules are:", Environment: "Environment", Again: "How to repeat it",
})

type labPage struct {
	Words                                  sheetWords
	KeptOut                                string
	Eyebrow, Title, Tone, Sentence, Counts string
	Wrong, LeftOut, Letters, Faults        []string
	Rows                                   []labRow
	Blocked, Environment                   []labFact
	Broken                                 []labBroken
	Commands                               []string
}

type labRow struct {
	Name, Store string
	Cells       []labCell
}

type labCell struct{ Text, Tone string }

// labBroken is a cell that some schedule broke.
type labBroken struct {
	Name, Found string
	Open        bool
	Stories     []labStory
	Witnesses   []string
}

type labStory struct {
	Title, Why, Ledger string
	Lines              []labLine
}

// labLine is a line of a story: an event in the column of replica A, B or C.
type labLine struct {
	At    string
	Lanes [3]labText
}

type labText struct{ Text, Class string }

// Page writes the result as a single HTML file: the outcomes, the schedules of the broken cells command by
// command, the environment, and how to repeat the exploration. It tells the schedules if faultlab.Options.Tell was set.
func Page(w io.Writer, r *faultlab.Result, o PageOptions) error {
	view := pageOf(r, o)
	var body, whole strings.Builder
	if err := sheetTemplate.Execute(&body, view); err != nil {
		return err
	}
	p := report.Page{Lang: o.Lang, Title: view.Title, Body: template.HTML(body.String())} //nolint:gosec // made by html/template
	if err := p.Write(&whole); err != nil {
		return err
	}
	_, err := io.WriteString(w, report.Hide(whole.String(), o.Secrets))
	return err
}

// pageOf collects the data of the page.
func pageOf(r *faultlab.Result, o PageOptions) labPage {
	v := labPage{Words: sheetTexts.In(o.Lang), KeptOut: keptOutText.In(o.Lang),
		Title: text.Of("Fault lab: %d [cell|cells]").With(len(r.Cells)).In(o.Lang)}
	v.Eyebrow = o.Made.UTC().Format("2006-01-02 15:04 UTC") + " · lastitem " + o.Version
	var counts strings.Builder
	writeCounts(&counts, r, o.Lang)
	v.Counts, _, _ = strings.Cut(strings.TrimSpace(report.Grouped(counts.String())), "\n")
	said := text.Of("Every outcome is as claimed.")
	v.Tone = "good"
	if n := len(r.Wrong()); n > 0 {
		v.Tone, said = "bad", text.Of("Of %[2]d [cell|cells], %[1]d [is|are] not as [it|they] must be.").With(n, len(r.Cells))
	} else if n := len(r.Undecided()); n > 0 {
		v.Tone, said = "warm", text.Of("Of %[2]d [cell|cells], %[1]d could not be decided on this machine.").With(n,
			len(r.Cells))
	}
	if r.Serve != nil {
		v.Title = text.Of("Fault lab: your service").In(o.Lang)
		v.Tone, said = foreignBanner(r, o.Lang)
	}
	v.Sentence = said.In(o.Lang)
	for _, c := range r.Cells {
		for _, why := range c.Wrong {
			v.Wrong = append(v.Wrong, strings.TrimSpace(name(c)+": "+why))
		}
		for _, why := range c.Undecided {
			v.LeftOut = append(v.LeftOut, "? "+name(c)+": "+why)
		}
	}
	v.LeftOut = append(v.LeftOut, notPlayed(r, o.Lang)...)
	for _, why := range r.LeftOut {
		v.LeftOut = append(v.LeftOut, strings.TrimSpace(leftOutText.With(why).In(o.Lang)))
	}
	if r.Interrupted {
		v.LeftOut = append(v.LeftOut, strings.TrimSpace(interruptedText.In(o.Lang)))
		if v.Tone == "good" {
			v.Tone = "warm"
		}
	}
	v.Faults, v.Rows = pageRows(r, o.Lang)
	v.Letters = pageLetters(r, o.Lang)
	for _, c := range r.Cells {
		if len(c.Witnesses) > 0 {
			v.Broken = append(v.Broken, pageBroken(r, c, o.Lang))
		}
	}
	if len(v.Broken) > 0 && len(v.Broken) <= 2 {
		v.Broken[0].Open = true
	}
	v.Blocked = keptOut(r)
	v.Environment = pageEnvironment(r, o)
	if commit, dirty := strings.CutSuffix(o.Version, "+dirty"); commit != "devel" && commit != "" && !dirty {
		v.Commands = append(v.Commands, "git checkout "+commit, "make build")
	}
	v.Commands = append(v.Commands, o.Command)
	return v
}

// name is the name of a cell in the page.
func name(c faultlab.Cell) string {
	return strings.TrimSpace(c.Mode + " " + string(c.Store) + " " + string(c.Fault))
}

// pageRows returns the faults that were played, and the letters that they showed for each mode and store.
func pageRows(r *faultlab.Result, lang string) (faults []string, rows []labRow) {
	for _, name := range hazards(r) {
		faults = append(faults, string(name))
	}
	for _, c := range r.Cells {
		i := slices.IndexFunc(rows, func(row labRow) bool { return row.Name == c.Mode && row.Store == string(c.Store) })
		if i < 0 {
			i = len(rows)
			rows = append(rows, labRow{Name: c.Mode, Store: string(c.Store), Cells: make([]labCell, len(faults))})
		}
		cell := labCell{Text: string(c.Found), Tone: "warm"}
		switch {
		case len(c.Wrong) > 0:
			cell = labCell{Text: string(c.Found) + " (!)", Tone: "bad"}
		case c.Found == api.Exact && len(c.Undecided) == 0: // a dot is easily overlooked
			cell = labCell{Text: text.Of("exact").In(lang), Tone: "good"}
		case r.Serve != nil && c.Broken():
			cell.Tone = "bad"
		}
		if c.Tried > 0 {
			cell.Text += fmt.Sprintf(" · %d", c.Tried)
		}
		rows[i].Cells[slices.Index(faults, string(c.Fault))] = cell
	}
	return faults, rows
}

// pageLetters explains the letters that were found.
func pageLetters(r *faultlab.Result, lang string) []string {
	var all []string
	if slices.ContainsFunc(r.Cells, func(c faultlab.Cell) bool { return c.Found == api.Exact }) {
		all = append(all, text.Of("exact (.): no schedule broke anything; the number beside it: how many schedules were "+
			"played").In(lang))
	}
	if len(r.Untested()) > 0 {
		all = append(all, text.Of("? = not tried, or not at every position").In(lang))
	}
	for _, letter := range faultlab.Letters {
		if slices.ContainsFunc(r.Cells, func(c faultlab.Cell) bool { return strings.ContainsRune(string(c.Found), letter) }) {
			all = append(all, string(letter)+" = "+foreignTexts.In(lang).letters[byte(letter)])
		}
	}
	return all
}

// pageBroken returns the witnesses of a broken cell with their stories.
func pageBroken(r *faultlab.Result, c faultlab.Cell, lang string) labBroken {
	v := labBroken{Name: name(c), Found: string(c.Found)}
	told := map[string]bool{}
	for _, letter := range slices.SortedFunc(maps.Keys(c.Witnesses), byLetter) {
		name := c.Witnesses[letter].String()
		if told[name] {
			continue
		}
		told[name] = true
		v.Witnesses = append(v.Witnesses, name)
		if i := slices.IndexFunc(r.Told, func(p faultlab.Played) bool {
			return p.Story != nil && p.Schedule.String() == name
		}); i >= 0 {
			v.Stories = append(v.Stories, pageStory(r.Told[i], lang))
		}
	}
	return v
}

// pageStory returns the story of a schedule as the page shows it.
func pageStory(p faultlab.Played, lang string) labStory {
	t := storyTexts.In(lang)
	s := labStory{Title: p.Schedule.String() + ": " + string(p.Outcome), Why: p.Why}
	s.Ledger = fmt.Sprintf(t.ledger, p.Story.Initial, p.Story.Left, p.Story.Ordered)
	for _, l := range folded(p.Story.Lines) {
		said := labText{said(l, t), "lab"}
		switch l.Event {
		case "":
			said.Class = ""
		case rig.Asked, rig.Reserves, rig.Pays, rig.Cancels, rig.Ships, rig.Extends, rig.Returns, rig.Adjusts,
			rig.Answered, Busy:
			said.Class = "client"
		}
		line := labLine{At: fmt.Sprintf("%.1f", float64(l.At.Microseconds())/1000)}
		line.Lanes[min(max(int(l.Actor[0]-'A'), 0), len(line.Lanes)-1)] = said
		s.Lines = append(s.Lines, line)
	}
	return s
}

// pageEnvironment returns the servers and the machine on which the outcomes were seen.
func pageEnvironment(r *faultlab.Result, o PageOptions) []labFact {
	var servers []string
	for _, name := range slices.Sorted(maps.Keys(r.Servers)) {
		servers = append(servers, name+": "+r.Servers[name])
	}
	fact := func(name text.Text, texts ...string) labFact { return labFact{name.In(o.Lang), texts} }
	return []labFact{
		fact(text.Of("time"), o.Made.Format(time.RFC3339)), {"lastitem", []string{o.Version}},
		fact(text.Of("machine"), text.Of("%s/%s, %d [core|cores], %s").With(runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
			runtime.Version()).In(o.Lang)),
		fact(text.Of("servers"), servers...), fact(text.Of("TTL of the locks"), r.TTL.String()),
	}
}
