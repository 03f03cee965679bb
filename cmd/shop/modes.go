package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lastitem/internal/columns"
	"lastitem/internal/stock"
	"lastitem/loadtest"
)

// The mode tables of the READMEs are what 'shop modes --markdown' prints.
//go:generate go test -count=1 -run TestModeTables|TestServersTable . -update

func newModes() *cobra.Command {
	var lang, docs string
	var asJSON, markdown bool
	cmd := &cobra.Command{
		Use:   "modes [NAME]",
		Short: "List the modes of this binary, or print the essay on one",
		Long: `Lists every way of deducting stock that this binary knows, in teaching order, with the stores it offers and what it claims
under each hazard. A name prints the essay on that mode: what it does step by step, what breaks it, when to use it.

  .  exact      O  oversold or lost update      L  leaked: stock gone without an order      D  double charge
  X  stuck      A  acknowledged order lost      –  cannot happen      blank: broken at an earlier hazard already

Nothing is started: which modes a running shop can serve is told by its GET /modes.`,
		Example: "  shop modes\n  shop modes lua-lock --lang zh\n  shop modes --json",
		Args:    arguments(0, 1),
		RunE: run(func(cmd *cobra.Command, args []string) error {
			if err := checkLang(lang); err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			switch {
			case len(args) == 1 && (asJSON || markdown || docs != ""):
				return usage("a mode's essay is Markdown as it is: --json, --markdown and --docs are for the list")
			case docs != "":
				return writePages(docs)
			case len(args) == 1:
				return printEssay(w, args[0], lang)
			case asJSON:
				return printModesJSON(w)
			case markdown:
				return printModesMarkdown(w, lang)
			}
			_, columns := terminal(w)
			return printModes(w, lang, columns)
		}),
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&lang, "lang", "en", "language of the titles and essays: en or zh")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON, in both languages")
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print the mode table of the README")
	cmd.Flags().StringVar(&docs, "docs", "", "write modes.md and a page per mode into this directory, in both languages")
	cmd.MarkFlagsMutuallyExclusive("json", "markdown", "docs")
	return cmd
}

// in returns the text in the language lang ("zh", else English).
func in(t stock.Text, lang string) string {
	if lang == "zh" {
		return t.Zh
	}
	return t.En
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
		_, err = io.WriteString(w, in(doc, lang))
		return err
	}
	return noMode(name)
}

// noMode is the error for a name that is no mode's, with the nearest one.
func noMode(name string) error {
	if _, err := loadtest.Select(modesHere(), name); err != nil {
		return usage("%w", err)
	}
	return usage("%q: want the name of one mode", name) // it is a pattern
}

// modeJSON is a mode as 'shop modes --json' prints it: as GET /modes does, less what only a running shop knows.
type modeJSON struct {
	Name        string                            `json:"name"`
	Title       map[string]string                 `json:"title"`
	Needs       []stock.Backend                   `json:"needs"`
	Stores      []stock.Store                     `json:"stores"`
	Cart        bool                              `json:"cart"`
	KeyRequired bool                              `json:"key_required"`
	Segments    int                               `json:"segments"`
	Baseline    bool                              `json:"baseline"`
	Claims      map[stock.Store]map[string]string `json:"claims"`
}

func printModesJSON(w io.Writer) error {
	modes := []modeJSON{}
	for _, m := range stock.Modes() {
		out := modeJSON{
			Name: m.Name, Title: map[string]string{"en": m.Title.En, "zh": m.Title.Zh},
			Needs: append([]stock.Backend{}, m.Needs...), Stores: append([]stock.Store{}, m.Stores...),
			Cart: m.Cart, KeyRequired: m.KeyRequired, Segments: m.Segments, Baseline: len(m.Stores) == 0,
			Claims: map[stock.Store]map[string]string{},
		}
		for store, claims := range m.Claims {
			out.Claims[store] = map[string]string{}
			for i, outcomes := range claims.Row() {
				out.Claims[store][stock.Hazards[i]] = outcomes
			}
		}
		modes = append(modes, out)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{"modes": modes})
}

// modeWords are the words of the tables, by language.
var modeWords = map[string]struct{ mode, store, needs, does, legend, stores, baseline string }{
	"en": {
		"mode", "store", "needs", "what it does",
		"`.` exact · `O` oversold or lost update · `L` leaked: stock gone without an order · `D` double charge · `X` stuck · " +
			"`A` acknowledged order lost · `–` cannot happen · blank: broken at an earlier hazard already.",
		" The default store stands first; where the stores differ, both outcomes are given, as in `L / .`.",
		"Baseline, without claims: ",
	},
	"zh": {
		"模式", "存储", "依赖", "做法",
		"`.` 精确 · `O` 超卖或丢失更新 · `L` 少卖（泄漏）：库存已扣，没有订单 · `D` 重复扣减 · `X` 卡死 · `A` 已确认的订单丢失 · `–` 不会发生 · " +
			"空白：在更早的场景已经出错。",
		"默认存储写在前面；两种存储结果不同时都列出，如 `L / .`。",
		"基准，不作声明：",
	},
}

// printModes draws the list for a terminal of wide columns; 0 = unknown, then it is as wide as it gets. A mode takes a
// line per store; its title stands beside the first of them, or where that does not fit below the last.
func printModes(w io.Writer, lang string, wide int) error {
	words := modeWords[lang]
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
				widths[i] = max(widths[i], columns.Width(cell))
			}
		}
		titles = max(titles, columns.Width(block.title))
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
				line += columns.Left(cell, widths[j]) + gap
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
	block := modeBlock{title: in(m.Title, lang)}
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

// brokenWords are the words of the READMEs' table, by language: what happens under each hazard, in their order, and then nothing.
var brokenWords = map[string]struct {
	by, happens, modes, nothing string
	hazards                     []string
}{
	"en": {
		"first broken by", "what happens", "modes", "none of these",
		[]string{
			"concurrent requests on one replica", "concurrent requests on several replicas", "the work between two commands outlives the lock's TTL",
			"the holder releases after a rival has acquired the lock", "the holder is stopped for longer than the TTL, then goes on",
			"the holder is killed at any step", "the Redis master dies before it has replicated, and a replica is promoted",
			"the client repeats a request with the same key",
			"a write, or its `COMMIT`, arrives after its sender gave up or died",
		},
	},
	"zh": {
		"最先栽在哪个场景", "发生了什么", "模式", "以上都不怕",
		[]string{
			"单副本并发", "多副本并发", "两条命令之间的业务比锁的 TTL 还长", "锁已被别人拿到，原持有者才来释放（锁误删）", "持有者停顿超过 TTL 后继续执行",
			"持有者在任意一步被 kill", "Redis 主节点来不及复制就宕机，从节点被提升", "客户端用同一个幂等键重复请求",
			"写命令（或 `COMMIT`）在发送方放弃或宕机之后才到",
		},
	},
}

// printModesMarkdown prints the table of the READMEs: for each hazard the modes that it is the first to break, with the stock in
// their default store.
func printModesMarkdown(w io.Writer, lang string) error {
	words, pages := brokenWords[lang], "docs/modes/%s.md"
	if lang == "zh" {
		pages = "docs/modes/%s.zh.md"
	}
	rows := make([][]string, len(stock.Hazards)+1)
	for _, m := range stock.Modes() {
		if len(m.Stores) == 0 {
			continue
		}
		at, letters := firstBroken(m.Claims[m.Stores[0]])
		cell := fmt.Sprintf("[`%s`](%s)", m.Name, fmt.Sprintf(pages, m.Name))
		if letters != "" {
			cell += " " + letters
		}
		rows[at] = append(rows[at], cell)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | %s | %s |\n| --- | --- | --- |\n", words.by, words.happens, words.modes)
	for i, cells := range rows {
		hazard, happens := words.nothing, ""
		if i < len(stock.Hazards) {
			hazard, happens = "`"+stock.Hazards[i]+"`", words.hazards[i]
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", hazard, happens, strings.Join(cells, " · "))
	}
	_, err := fmt.Fprintf(w, "%s\n%s\n", b.String(), modeWords[lang].legend)
	return err
}

// firstBroken is the place of the first hazard that breaks a mode, and how; behind the last one where none does.
func firstBroken(c stock.Claims) (at int, letters string) {
	for i, outcomes := range c.Row() {
		if strings.Trim(outcomes, ".–") != "" {
			return i, outcomes
		}
	}
	return len(stock.Hazards), ""
}

// modesMarkdown is the table of the modes, each linked to what link says of its name.
func modesMarkdown(lang string, link func(name string) string) string {
	words := modeWords[lang]
	var b, baselines strings.Builder
	fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", words.mode, words.store, words.does, strings.Join(stock.Hazards, " | "))
	b.WriteString("| --- | --- | --- |" + strings.Repeat(" --- |", len(stock.Hazards)) + "\n")
	for _, m := range stock.Modes() {
		link := fmt.Sprintf("[`%s`](%s)", m.Name, link(m.Name))
		title := strings.ReplaceAll(in(m.Title, lang), "|", `\|`)
		if len(m.Stores) == 0 {
			fmt.Fprintf(&baselines, "\n%s%s · %s\n", words.baseline, link, title)
			continue
		}
		var stores []string
		for _, s := range m.Stores {
			stores = append(stores, string(s))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", link, strings.Join(stores, " / "), title, strings.Join(claimCells(m), " | "))
	}
	return fmt.Sprintf("%s\n%s%s\n%s", b.String(), words.legend, words.stores, baselines.String())
}

// claimCells are the claims of a mode, a cell per hazard: one for all stores where they agree, else one each.
func claimCells(m stock.Mode) []string {
	cells := make([]string, len(stock.Hazards))
	for i := range cells {
		var each []string
		for _, s := range m.Stores {
			each = append(each, m.Claims[s].Row()[i])
		}
		if len(slices.Compact(slices.Clone(each))) == 1 {
			each = each[:1]
		}
		cells[i] = strings.Join(each, " / ")
	}
	return cells
}
