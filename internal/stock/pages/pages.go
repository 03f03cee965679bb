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

// All returns the index and the pages in both languages, by path below docs/. The pages are those of dir, or of this
// binary where dir has none, with their generated blocks as they should be.
func All(dir string) (map[string]string, error) {
	pages := map[string]string{}
	for _, lang := range []string{"en", "zh"} {
		pages[docs.Name("modes", lang)] = index(lang)
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

// index is the page that lists the modes.
func index(lang string) string {
	said := []string{
		text.Of("# The modes").In(lang), "[" + otherName.In(lang) + "](" + docs.Name("modes", Other(lang)) + ")",
		text.Of("Every way of deducting stock that lastitem knows, in teaching order: broken first, then repaired. A page " +
			"each: the essay,\n" +
			"a sequence diagram of the run that goes well and of the one that breaks it, and the commands of one deduction as " +
			"the\n" +
			"servers saw them. `shop modes NAME` prints the essay, `shop trace NAME` the commands, with their times.").In(lang),
		modesMarkdown(lang, func(name string) string { return "modes/" + docs.Name(name, lang) }) + "\n" +
			text.Of("## The hazards and the letters").In(lang),
		api.Definitions(lang),
	}
	return strings.Join(said, "\n\n")
}

// otherName is the name of the other language, in that language.
var otherName = text.Of("中文")

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
	m := modes[i]
	claims := text.Of("## What it claims").In(lang) + "\n\n" + claimsTable(m, lang) + "\n"
	if len(m.Holds) > 0 {
		claims += "\n" + text.Of("With the admin token a request may experiment with the lock: %s.").With(holdsLine(m,
			lang)).In(lang) + "\n"
	}
	return [][2]string{
		{"links", pageLinks(modes, i, lang) + "\n\n*" + m.Title.In(lang) + "*\n"},
		{"claims", claims},
		{"shown", shown(m, lang)},
	}
}

// shown are the pictures of a mode, its commands, and what the columns and letters mean.
func shown(m stock.Mode, lang string) string {
	var b strings.Builder
	add := func(parts ...string) { b.WriteString(strings.Join(parts, "\n") + "\n\n") }
	say := func(t text.Text) { add(t.In(lang)) }
	if d := m.Diagrams(lang); d.Good != "" {
		say(text.Of("## In pictures"))
		if d.Survives {
			say(text.Of("### A run in which something goes wrong, and the mode survives it"))
		} else {
			say(text.Of("### The run that goes well"))
		}
		add("```mermaid", strings.TrimSpace(d.Good), "```")
		if d.Break != "" {
			say(text.Of("### The run that breaks it"))
			add("```mermaid", strings.TrimSpace(d.Break), "```")
		} else {
			say(text.Of("None of the hazards above breaks it, so there is no second picture."))
		}
	}
	if trace := m.Trace(); trace != "" {
		say(text.Of("## On the wire"))
		say(text.Of("The commands of one deduction, on one replica without other requests, as they passed between the " +
			"replica and its servers;\n" +
			"indented lines are commands of a script inside Redis, from its MONITOR. Words in angle brackets differ from run " +
			"to run. Without\n" +
			"`--stable` the same command shows the times on both sides of the wire."))
		if slices.Contains(m.Needs, stock.NeedKafka) {
			say(text.Of("`asker` and `consumer` are no servers: their lines are the steps that the deduction reports on the " +
				"replica that answers the client,\n" +
				"and on the one that executes the product's partition. Kafka's own traffic is not seen."))
		}
		add("```text", strings.TrimSpace(trace), "```")
	}
	if trace := m.HoldTrace(); trace != "" {
		say(text.Of("The same with work that takes two and a half TTLs, one re-entry, and a rival that comes meanwhile. " +
			"`TTLs` is when a command was\n" +
			"sent, in TTLs since the request began; `…` after a time says that it was sent again later with the same result. " +
			"The renewals\n" +
			"come every third of the TTL, and the rival sends nothing between its tries: the message of the release wakes it."))
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
	links := []string{
		fmt.Sprintf("[%s](../%s)", text.Of("All modes").In(lang), docs.Name("modes", lang)),
		fmt.Sprintf("[%s](%s)", otherName.In(lang), docs.Name(modes[i].Name, Other(lang))),
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
		return text.Of("Nothing: it is the baseline, of which every speed is a share.").In(lang)
	}
	words := tableWords.In(lang)
	rows := []string{
		"| " + words.store + " | " + strings.Join(stock.Hazards, " | ") + " |",
		"| --- |" + strings.Repeat(" --- |", len(stock.Hazards)),
	}
	for _, s := range m.Stores {
		rows = append(rows, "| "+string(s)+" | "+strings.Join(m.Row(s), " | ")+" |")
	}
	return strings.Join(append(rows, "", legend(lang)+" "+text.Of(
		"[What the columns and letters mean](../modes.md#the-hazards-and-the-letters)").In(lang)), "\n")
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
