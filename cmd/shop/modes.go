package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lastitem/contract/api"
	"lastitem/internal/cli"
	"lastitem/internal/stock"
	"lastitem/internal/stock/pages"
	"lastitem/loadtest/compare"
	layout "lastitem/say/report"
	"lastitem/say/text"
)

// docs/modes.md, docs/modes.zh.md and the generated blocks of the pages that they lead to are what 'shop modes --docs'
// writes. What else is generated in documents is in package docs.
//go:generate go run . modes --docs ../../docs

func newModes(lang string) *cobra.Command {
	var docs string
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "modes [NAME]",
		Short: text.Of("List the modes of this binary, or print the essay on one").In(lang),
		Long: text.Of(`Lists every way of deducting stock that this binary knows, in teaching order, with the stores it offers
and what it claims under each hazard. A name prints the essay on that mode: what it does step by step, what breaks it,
when to use it.

  .  exact      O  oversold or lost update      L  leaked: stock gone without an order
  X  stuck      A  acknowledged order lost      D  double charge
  –  cannot happen                              blank: an earlier hazard has broken it already

Nothing is started: GET /modes of a running shop says which modes it can serve. The JSON is in both languages; the
Markdown is the table of the README.`).In(lang),
		Example: "  shop modes\n  shop modes lua-lock --lang zh\n  shop modes -o json",
		Args:    cli.Arguments(0, 1),
		RunE: cli.Run(func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && (out.Gives(cli.JSON) || docs != ""):
				return cli.Usage(text.Of("a mode's essay is Markdown: JSON and --docs are for the list"))
			case docs != "":
				return pages.Write(docs)
			}
			return out.Write(cmd, func(w io.Writer, form string) error {
				switch {
				case len(args) == 1:
					return printEssay(w, args[0], lang)
				case form == cli.JSON:
					return printModesJSON(w)
				case form == cli.Markdown:
					_, err := io.WriteString(w, pages.Table(lang))
					return err
				}
				_, wide := layout.Terminal(w)
				return printModes(w, lang, wide)
			})
		}),
	}
	out.Add(cmd, lang, cli.Text, cli.JSON, cli.Markdown)
	cli.AddLang(cmd.Flags(), &lang)
	cmd.Flags().StringVar(&docs, "docs", "", text.Of("write modes.md and a page per mode into this directory, in both "+
		"languages").In(lang))
	cmd.MarkFlagsMutuallyExclusive("output", "docs")
	cmd.MarkFlagsMutuallyExclusive("out", "docs")
	return cmd
}

func printEssay(w io.Writer, name, lang string) error {
	for _, m := range stock.Modes() {
		if m.Name != name {
			continue
		}
		doc, err := m.Doc()
		if err != nil {
			return err
		}
		_, err = io.WriteString(w, doc.In(lang))
		return err
	}
	return noMode(name)
}

// noMode is the error for a name that is no mode's, with the nearest one.
func noMode(name string) error {
	if _, err := compare.Select(modesHere(), name); err != nil {
		return cli.Misuse(err)
	}
	return cli.Usage(text.Of("%q: want the name of one mode"), name) // it is a pattern
}

// modesHere are the modes that this binary knows, as GET /modes lists them, less what only a running shop knows.
func modesHere() []api.Mode {
	var modes []api.Mode
	for _, m := range stock.Modes() {
		modes = append(modes, m.API())
	}
	return modes
}

// modeJSON is a mode as 'shop modes -o json' prints it: without the fields that only a running shop fills in.
type modeJSON struct {
	api.Mode
	Default   *bool `json:"default,omitempty"`
	Available *bool `json:"available,omitempty"`
}

func printModesJSON(w io.Writer) error {
	var modes []modeJSON
	for _, m := range modesHere() {
		modes = append(modes, modeJSON{Mode: m})
	}
	return cli.WriteJSON(w, map[string]any{"modes": modes})
}

// modeWords are the words of the list, by language.
var modeWords = text.Table(struct{ mode, store, needs, does string }{"mode", "store", "needs", "what it does"})

// printModes draws the list for a terminal of wide columns; 0 = unknown, then it is as wide as it gets. A mode takes a
// line per store; its title stands beside the first of them, or where that does not fit below the last.
func printModes(w io.Writer, lang string, wide int) error {
	words := modeWords.In(lang)
	rows := [][]string{slices.Concat([]string{words.mode, words.store}, stock.Hazards, []string{words.needs, words.does})}
	starts := []int{0} // of each mode, after the heads
	for _, m := range stock.Modes() {
		starts = append(starts, len(rows))
		rows = append(rows, modeRows(m, lang)...)
	}
	list := layout.Align(rows, 0)
	tooWide := func(line string) bool { return layout.Width(line) > wide }
	if wide > 0 && slices.ContainsFunc(strings.Split(list, "\n"), tooWide) {
		list = titlesBelow(rows, starts)
	}
	_, err := io.WriteString(w, list)
	return err
}

// titlesBelow draws the list with the titles on lines of their own.
func titlesBelow(rows [][]string, starts []int) string {
	bare := make([][]string, len(rows))
	for i, row := range rows {
		bare[i] = row[:len(row)-1]
	}
	lines := strings.SplitAfter(layout.Align(bare, 0), "\n")
	var b strings.Builder
	for i, from := range starts {
		to := len(rows)
		if i+1 < len(starts) {
			to = starts[i+1]
		}
		b.WriteString(strings.Join(lines[from:to], "") + "  " + rows[from][len(rows[from])-1] + "\n")
	}
	return b.String()
}

// modeRows are the rows of a mode, one per store; the title is the last cell of the first.
func modeRows(m stock.Mode, lang string) (rows [][]string) {
	var needs []string
	for _, b := range m.Needs {
		needs = append(needs, string(b))
	}
	name, last := m.Name, []string{strings.Join(needs, ", "), m.Title.In(lang)}
	for _, store := range m.Stores {
		rows = append(rows, slices.Concat([]string{name, string(store)}, m.Row(store), last))
		name, last = "", []string{"", ""}
	}
	if len(m.Stores) == 0 {
		rows = [][]string{slices.Concat([]string{name, "–"}, make([]string, len(stock.Hazards)), []string{"–", last[1]})}
	}
	return rows
}
