package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	layout "lastitem/internal/report"
	"lastitem/internal/stock"
	"lastitem/internal/stock/pages"
	"lastitem/internal/text"
	"lastitem/loadtest"
)

// docs/modes.md, docs/modes.zh.md and the generated blocks of the pages that they lead to are what 'shop modes --docs'
// writes. What else is generated in documents is in package docs.
//go:generate go run . modes --docs ../../docs

func newModes(lang string) *cobra.Command {
	var docs string
	var out output
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
		Args:    arguments(0, 1),
		RunE: run(func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && (out.gives(formJSON) || docs != ""):
				return usage(text.Of("a mode's essay is Markdown: JSON and --docs are for the list"))
			case docs != "":
				return pages.Write(docs)
			}
			return out.write(cmd, func(w io.Writer, form string) error {
				switch {
				case len(args) == 1:
					return printEssay(w, args[0], lang)
				case form == formJSON:
					return printModesJSON(w)
				case form == formMarkdown:
					_, err := io.WriteString(w, pages.Table(lang))
					return err
				}
				_, wide := layout.Terminal(w)
				return printModes(w, lang, wide)
			})
		}),
	}
	cmd.Flags().SortFlags = false
	out.add(cmd, lang, formText, formJSON, formMarkdown)
	addLang(cmd.Flags(), &lang)
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
	if _, err := loadtest.Select(modesHere(), name); err != nil {
		return misuse(err)
	}
	return usage(text.Of("%q: want the name of one mode"), name) // it is a pattern
}

// modeJSON is a mode as 'shop modes -o json' prints it: as GET /modes does, less what only a running shop knows.
type modeJSON struct {
	Name        string                            `json:"name"`
	Title       map[string]string                 `json:"title"`
	Needs       []stock.Backend                   `json:"needs"`
	Stores      []stock.Store                     `json:"stores"`
	Cart        bool                              `json:"cart"`
	KeyRequired bool                              `json:"key_required"`
	Holds       []stock.HoldField                 `json:"holds"`
	Segments    int                               `json:"segments"`
	Reserves    bool                              `json:"reserves,omitempty"`
	PerBuyer    bool                              `json:"per_buyer,omitempty"`
	Units       bool                              `json:"units,omitempty"`
	Baseline    bool                              `json:"baseline"`
	Claims      map[stock.Store]map[string]string `json:"claims"`
}

func printModesJSON(w io.Writer) error {
	modes := []modeJSON{}
	for _, m := range stock.Modes() {
		out := modeJSON{
			Name: m.Name, Title: map[string]string{"en": m.Title.En, "zh": m.Title.Zh},
			Needs: append([]stock.Backend{}, m.Needs...), Stores: append([]stock.Store{}, m.Stores...),
			Holds: append([]stock.HoldField{}, m.Holds...), Cart: m.Cart, KeyRequired: m.KeyRequired,
			Segments: max(0, m.Segments), Reserves: m.Reserves, PerBuyer: m.PerBuyer || m.Reserves, Units: m.Segments < 0,
			Baseline: len(m.Stores) == 0,
			Claims:   map[stock.Store]map[string]string{},
		}
		for store, claims := range m.Claims {
			out.Claims[store] = map[string]string{}
			for i, outcomes := range claims.Row() {
				out.Claims[store][stock.Hazards[i]] = outcomes
			}
		}
		modes = append(modes, out)
	}
	return writeIndented(w, map[string]any{"modes": modes})
}

// modeWords are the words of the list, by language.
var modeWords = text.Table(struct{ mode, store, needs, does string }{"mode", "store", "needs", "what it does"})

// printModes draws the list for a terminal of wide columns; 0 = unknown, then it is as wide as it gets. A mode takes a
// line per store; its title stands beside the first of them, or where that does not fit below the last.
func printModes(w io.Writer, lang string, wide int) error {
	words := modeWords.In(lang)
	blocks := []modeBlock{{
		rows:  [][]string{append(append([]string{words.mode, words.store}, stock.Hazards...), words.needs)},
		title: words.does,
	}}
	for _, m := range stock.Modes() {
		blocks = append(blocks, blockOf(m, lang))
	}
	widths := make([]int, len(blocks[0].rows[0]))
	titles := 0
	for _, block := range blocks {
		for _, row := range block.rows {
			for i, cell := range row {
				widths[i] = max(widths[i], layout.Width(cell))
			}
		}
		titles = max(titles, layout.Width(block.title))
	}
	whole := titles
	for _, n := range widths {
		whole += n + len(gap)
	}
	below := wide > 0 && whole > wide
	var b strings.Builder
	for _, block := range blocks {
		for i, row := range block.rows {
			line := ""
			for j, cell := range row {
				line += layout.Left(cell, widths[j]) + gap
			}
			if i == 0 && !below {
				line += block.title
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		if below {
			b.WriteString(gap + block.title + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// gap stands between two columns.
const gap = "  "

// modeBlock is a mode in the list: a row of cells per store, and its title.
type modeBlock struct {
	rows  [][]string
	title string
}

func blockOf(m stock.Mode, lang string) modeBlock {
	block := modeBlock{title: m.Title.In(lang)}
	var needs []string
	for _, b := range m.Needs {
		needs = append(needs, string(b))
	}
	for i, store := range m.Stores {
		row := append([]string{m.Name, string(store)}, m.Claims[store].Row()...)
		row = append(row, strings.Join(needs, ", "))
		if i > 0 {
			row[0], row[len(row)-1] = "", ""
		}
		block.rows = append(block.rows, row)
	}
	if len(m.Stores) == 0 {
		row := append([]string{m.Name, "–"}, make([]string, len(stock.Hazards))...)
		block.rows = [][]string{append(row, "–")}
	}
	return block
}
