// Package pages renders the documentation of the modes in Markdown, from the same values as everything else: [All] the
// index docs/modes.md and a page for each mode, [Table] the table of the READMEs.
package pages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lastitem/contract/api"
	"lastitem/docs"
	"lastitem/internal/stock"
	"lastitem/say/text"
)

// pageWords are the words of the pages, by language.
var pageWords = text.Table(struct {
	title, intro, hazards, defined, all, other, claims, noClaims, diagrams string
	good, survives, broken, nothing, trace, traced, steps, holds, held     string
}{
	title: "# The modes",
	intro: "Every way of deducting stock that lastitem knows, in teaching order: broken first, then repaired. A page " +
		"each: the essay,\n" +
		"a sequence diagram of the run that goes well and of the one that breaks it, and the commands of one deduction as " +
		"the\n" +
		"servers saw them. `shop modes NAME` prints the essay, `shop trace NAME` the commands, with their times.",
	hazards: "## The hazards and the letters", defined: "[What the columns and letters " +
		"mean](../modes.md#the-hazards-and-the-letters)",
	all: "All modes", other: "中文",
	claims: "## What it claims", noClaims: "Nothing: it is the baseline, of which every speed is a share.",
	diagrams: "## In pictures", good: "### The run that goes well",
	survives: "### A run in which something goes wrong, and the mode survives it", broken: "### The run that breaks it",
	nothing: "None of the hazards above breaks it, so there is no second picture.",
	trace:   "## On the wire",
	traced: "The commands of one deduction, on one replica without other requests, as they passed between the replica " +
		"and its servers;\n" +
		"indented lines are commands of a script inside Redis, from its MONITOR. Words in angle brackets differ from run " +
		"to run. Without\n" +
		"`--stable` the same command shows the times on both sides of the wire.",
	steps: "`asker` and `consumer` are no servers: their lines are the steps that the deduction reports on the replica that " +
		"answers the client,\n" +
		"and on the one that executes the product's partition. What passes through Kafka itself is not seen.",
	held: "The same with work that takes two and a half TTLs, one re-entry, and a rival that comes meanwhile. `TTLs` is " +
		"when a command was\n" +
		"sent, in TTLs since the request began; `…` after a time says that it was sent again later with the same result. " +
		"The renewals\n" +
		"come every third of the TTL, and the rival sends nothing between its tries: the message of the release wakes it.",
	holds: "With the admin token a request may experiment with the lock: %s.",
})

// All returns the index and the pages in both languages, by path below docs/. The pages are those of dir, or of this
// binary where dir has none, with their generated blocks as they should be.
func All(dir string) (map[string]string, error) {
	pages := map[string]string{}
	for _, lang := range []string{"en", "zh"} {
		words := pageWords.In(lang)
		table := modesMarkdown(lang, func(name string) string { return "modes/" + docs.Name(name, lang) })
		pages[docs.Name("modes", lang)] = fmt.Sprintf("%s\n\n[%s](%s)\n\n%s\n\n%s\n%s\n\n%s",
			words.title, words.other, docs.Name("modes", Other(lang)), words.intro, table, words.hazards, api.Definitions(lang))
		modes := stock.Modes()
		for i, m := range modes {
			name := "modes/" + docs.Name(m.Name, lang)
			source, err := os.ReadFile(filepath.Join(dir, name))
			if errors.Is(err, fs.ErrNotExist) {
				source, err = fs.ReadFile(docs.Files(), name)
			}
			page := string(source)
			for _, block := range blocks(modes, i, lang) {
				if err == nil {
					page, err = docs.Fill(page, block[0], block[1])
				}
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			pages[name] = page
		}
	}
	return pages, nil
}

// Other returns the other language of the two.
func Other(lang string) string {
	if lang == "zh" {
		return "en"
	}
	return "zh"
}

// blocks returns the generated blocks of a mode's page, each with its name: the links below the title, the claims
// before the sections, and the pictures and the commands after them.
func blocks(modes []stock.Mode, i int, lang string) [][2]string {
	m, words := modes[i], pageWords.In(lang)
	claims := words.claims + "\n\n" + claimsTable(m, lang) + "\n"
	if len(m.Holds) > 0 {
		claims += "\n" + fmt.Sprintf(words.holds, holdsLine(m, lang)) + "\n"
	}
	return [][2]string{
		{"links", pageLinks(modes, i, lang) + "\n\n*" + m.Title.In(lang) + "*\n"},
		{"claims", claims},
		{"shown", shown(m, lang)},
	}
}

// shown are the pictures of a mode, its commands, and what the columns and letters mean.
func shown(m stock.Mode, lang string) string {
	words := pageWords.In(lang)
	var b strings.Builder
	add := func(parts ...string) { b.WriteString(strings.Join(parts, "\n") + "\n\n") }
	if d := m.Diagrams(lang); d.Good != "" {
		add(words.diagrams)
		good := words.good
		if d.Survives {
			good = words.survives
		}
		add(good, "", "```mermaid", strings.TrimSpace(d.Good), "```")
		if d.Break != "" {
			add(words.broken, "", "```mermaid", strings.TrimSpace(d.Break), "```")
		} else {
			add(words.nothing)
		}
	}
	if trace := m.Trace(); trace != "" {
		add(words.trace, "", words.traced)
		if slices.Contains(m.Needs, stock.NeedKafka) {
			add(words.steps)
		}
		add("```text", strings.TrimSpace(trace), "```")
	}
	if trace := m.HoldTrace(); trace != "" {
		add(words.held)
		add("```text", strings.TrimSpace(trace), "```")
	}
	return strings.TrimLeft(strings.TrimRight(b.String(), "\n")+"\n", "\n")
}

// holdWords describe the fields of an experiment with the lock.
var holdWords = map[stock.HoldField]text.Text{
	stock.LeaseField: text.Of("`lease_ms` ends it after that time, and nothing renews it"),
	stock.DepthField: text.Of("`depth` re-enters it that many times"),
	stock.WorkField:  text.Of("`hold_ms` makes the work between the read and the write take that long"),
}

// holdsLine describes the fields that a request may set for the lock of a mode.
func holdsLine(m stock.Mode, lang string) string {
	var parts []string
	for _, f := range m.Holds {
		parts = append(parts, holdWords[f].In(lang))
	}
	return strings.Join(parts, text.Of("; ").In(lang))
}

// pageLinks lead to the index, the other language, and the modes before and after.
func pageLinks(modes []stock.Mode, i int, lang string) string {
	words := pageWords.In(lang)
	links := []string{
		fmt.Sprintf("[%s](../%s)", words.all, docs.Name("modes", lang)),
		fmt.Sprintf("[%s](%s)", words.other, docs.Name(modes[i].Name, Other(lang))),
	}
	if i > 0 {
		links = append(links, fmt.Sprintf("[← %s](%s)", modes[i-1].Name, docs.Name(modes[i-1].Name, lang)))
	}
	if i+1 < len(modes) {
		links = append(links, fmt.Sprintf("[%s →](%s)", modes[i+1].Name, docs.Name(modes[i+1].Name, lang)))
	}
	return strings.Join(links, " · ")
}

// claimsTable is a row per store.
func claimsTable(m stock.Mode, lang string) string {
	if len(m.Stores) == 0 {
		return pageWords.In(lang).noClaims
	}
	words := tableWords.In(lang)
	rows := []string{
		"| " + words.store + " | " + strings.Join(stock.Hazards, " | ") + " |",
		"| --- |" + strings.Repeat(" --- |", len(stock.Hazards)),
	}
	for _, s := range m.Stores {
		rows = append(rows, "| "+string(s)+" | "+strings.Join(m.Row(s), " | ")+" |")
	}
	return strings.Join(append(rows, "", legend(lang)+" "+pageWords.In(lang).defined), "\n")
}

// Write writes the pages of [All] below dir.
func Write(dir string) error {
	pages, err := All(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "modes"), 0o755); err != nil {
		return err
	}
	for name, said := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(said), 0o644); err != nil {
			return err
		}
	}
	return nil
}
