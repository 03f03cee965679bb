package pages

import (
	"fmt"
	"slices"
	"strings"

	"lastitem/contract/api"
	"lastitem/internal/stock"
	"lastitem/say/text"
)

// tableWords are the words of the tables of claims, by language.
var tableWords = text.Table(struct{ mode, store, does, stores, baseline string }{
	"mode", "store", "what it does",
	" The default store stands first; where the stores differ, both outcomes are given, as in `L / .`.",
	"Baseline, without claims: ",
})

// brokenWords are the words of the READMEs' table, by language.
var brokenWords = text.Table(struct{ by, happens, modes, nothing, unplayed string }{"first broken by", "what happens",
	"modes", "none of these", "(claimed; the lab does not play it)"})

// legend is the line below a table of claims.
func legend(lang string) string {
	return api.Legend(lang) + text.Of(".").In(lang)
}

// Table returns the table of the READMEs: for each hazard the modes that it is the first to break, with the stock in
// their default store.
func Table(lang string) string {
	words := brokenWords.In(lang)
	rows := make([][]string, len(stock.Hazards)+1)
	for _, m := range stock.Modes() {
		if len(m.Stores) == 0 {
			continue
		}
		at, letters := firstBroken(m.Row(m.Stores[0]))
		cell := "`" + m.Name + "`"
		if letters != "" {
			cell += " " + letters
		}
		if slices.Contains(m.Needs, stock.NeedKafka) {
			cell += " " + words.unplayed
		}
		rows[at] = append(rows[at], cell)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | %s | %s |\n| --- | --- | --- |\n", words.by, words.happens, words.modes)
	for i, cells := range rows {
		hazard, happens := words.nothing, ""
		if i < len(stock.Hazards) {
			hazard, happens = "`"+stock.Hazards[i]+"`", api.Hazards[i].Short.In(lang)
		}
		if len(cells) == 0 {
			continue // each mode that it breaks was broken before
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", hazard, happens, strings.Join(cells, " · "))
	}
	lines := strings.NewReplacer(" · `X`", " ·\n`X`", " · `–`", " ·\n`–`").Replace(legend(lang))
	return fmt.Sprintf("%s\n%s\n", b.String(), lines)
}

// firstBroken returns the index of the first hazard that breaks a mode, and the outcome; the index after the last if
// none does.
func firstBroken(row []string) (at int, letters string) {
	for i, outcomes := range row {
		if strings.Trim(outcomes, ".–") != "" {
			return i, outcomes
		}
	}
	return len(stock.Hazards), ""
}

// modesMarkdown returns the table of the modes, each linked to the address that link returns for its name.
func modesMarkdown(lang string, link func(name string) string) string {
	words := tableWords.In(lang)
	var b, baselines strings.Builder
	fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", words.mode, words.store, words.does, strings.Join(stock.Hazards, " | "))
	b.WriteString("| --- | --- | --- |" + strings.Repeat(" --- |", len(stock.Hazards)) + "\n")
	for _, m := range stock.Modes() {
		link := fmt.Sprintf("[`%s`](%s)", m.Name, link(m.Name))
		title := strings.ReplaceAll(m.Title.In(lang), "|", `\|`)
		if len(m.Stores) == 0 {
			fmt.Fprintf(&baselines, "\n%s%s · %s\n", words.baseline, link, title)
			continue
		}
		var stores []string
		for _, s := range m.Stores {
			stores = append(stores, string(s))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", link, strings.Join(stores, " / "), title,
			strings.Join(claimCells(m), " | "))
	}
	return fmt.Sprintf("%s\n%s%s\n%s", b.String(), legend(lang), words.stores, baselines.String())
}

// claimCells returns the claims of a mode, a cell per hazard: one outcome if all stores have the same, else one per
// store.
func claimCells(m stock.Mode) []string {
	cells := make([]string, len(stock.Hazards))
	for i := range cells {
		var each []string
		for _, s := range m.Stores {
			each = append(each, m.Row(s)[i])
		}
		if len(slices.Compact(slices.Clone(each))) == 1 {
			each = each[:1]
		}
		cells[i] = strings.Join(each, " / ")
	}
	return cells
}
