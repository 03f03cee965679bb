package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lastitem/internal/stock"
)

// docs/modes.md, docs/modes.zh.md and the pages that they lead to are what 'shop modes --docs' writes.
//go:generate go run . modes --docs ../../docs

// pageWords are the words of the pages, by language.
var pageWords = map[string]struct {
	title, intro, hazards, all, other, claims, noClaims, diagrams string
	good, broken, nothing, trace, traced, beside                  string
}{
	"en": {
		title: "# The modes",
		intro: "Every way of deducting stock that lastitem knows, in teaching order: broken first, then repaired. A page each: the essay,\n" +
			"a sequence diagram of the run that goes well and of the one that breaks it, and the commands of one deduction as the\n" +
			"servers saw them. `shop modes NAME` prints the essay, `shop trace NAME` the commands, with their times.",
		hazards: "## The hazards\n\n" +
			"* `threads`, `replicas`: concurrent requests, at one replica and at several.\n" +
			"* `slow`: the work *between* two commands takes longer than the lock's TTL, and the process lives. A command whose answer takes\n" +
			"  longer than the client waits (three seconds with Redis) is something else: a lost reply. Its outcome is unknown, and it leaks\n" +
			"  units in the modes that write the count and the order with two commands.\n" +
			"* `late`: the holder has finished and its lease has expired; it releases only after a rival has acquired the lock.\n" +
			"* `pause`: the holder is stopped inside the section for longer than its TTL or session, then wakes up and goes on.\n" +
			"* `crash`: the holder is killed at any of its commands, and sends nothing more. The judge decides on \"stuck\" only after the\n" +
			"  longest of TTL, session (a Consul session lives for up to twice its TTL) and lock-delay has passed.\n" +
			"* `failover`: a Redis master dies before it has replicated everything, and its replica is promoted. The master is the one that\n" +
			"  holds lock and stock; for `redlock`, one of the nodes that granted the lock.\n" +
			"* `retry`: the client repeats a request with the same key.\n" +
			"* `late-write`: the write of the stock, or its `COMMIT`, is still on its way when its sender gives up or dies, and arrives later.\n" +
			"  A lock does not help: by then it has been released or has expired. A write does help if its condition is checked where the data is.",
		all: "All modes", other: "中文",
		claims: "## What it claims", noClaims: "Nothing: it is the baseline, of which every speed is a share.",
		diagrams: "## In pictures", good: "### The run that goes well", broken: "### The run that breaks it",
		nothing: "Nothing that is claimed here breaks it: there is no second picture.",
		trace:   "## On the wire",
		traced: "The commands of one deduction, one replica and nobody else, as they passed between the replica and its servers;\n" +
			"indented, what a script did inside Redis, by its MONITOR. Words in angle brackets differ from run to run. Without\n" +
			"`--stable` the same command shows the times on both sides of the wire.",
		beside: "A `Fetch` waits in the broker until there is a record, and stands where its answer came. `OffsetCommit` stands last\n" +
			"because nobody waits for it: it follows the `COMMIT` on the database, and passes before, between or after the rest.\n" +
			"The broker is the embedded one.",
	},
	"zh": {
		title: "# 全部模式",
		intro: "lastitem 里扣减库存的全部做法，按教学顺序排列：先坏的，后修好的。每个模式一页：文章、正常与出错两张时序图，\n" +
			"以及一次扣减实际发出的命令。`shop modes NAME` 打印文章，`shop trace NAME` 打印命令和耗时。",
		hazards: "## 场景\n\n" +
			"* `threads`、`replicas`：并发请求，分别是单副本和多副本。\n" +
			"* `slow`：进程活着，但**两条命令之间**的业务比锁的 TTL 还长。如果是某条命令的应答迟迟不来，超过了客户端的等待上限（Redis 是 3 秒），\n" +
			"  那算应答丢失，结果未知；库存和订单分两条命令写的模式会因此少卖。\n" +
			"* `late`：持有者干完了，租约已过期，锁到了别人手里，这时它才来释放。\n" +
			"* `pause`：持有者在临界区里停顿超过 TTL（或会话），醒来后继续执行。\n" +
			"* `crash`：持有者在任意一条命令处被 kill，没发出去的命令不会再发。“卡死”要等 TTL、会话（Consul 的会话最多活两倍 TTL）、\n" +
			"  lock-delay 三者中最长的一个过去之后再判定。\n" +
			"* `failover`：Redis 主节点来不及复制就宕机，从节点被提升。指的是锁和库存所在的 Redis；`redlock` 则是同意加锁的节点之一。\n" +
			"* `retry`：客户端用同一个幂等键重复请求。\n" +
			"* `late-write`：库存的写命令（或 `COMMIT`）还在路上，发送方就放弃了或者宕机了，之后它才到。锁帮不上忙：那时锁已经释放或过期。\n" +
			"  能挡住它的只有条件写：校验和写入在数据那一侧一步完成。",
		all: "全部模式", other: "English",
		claims: "## 声明", noClaims: "没有：它是基准，其他模式的速度都按它的百分比计算。",
		diagrams: "## 时序图", good: "### 正常的一次", broken: "### 出错的一次",
		nothing: "声明里没有能让它出错的场景，所以没有第二张图。",
		trace:   "## 线路上的命令",
		traced: "单副本、无竞争，一次扣减在副本与服务之间经过的命令；缩进的是脚本在 Redis 内部执行的命令（来自 MONITOR）。\n" +
			"尖括号里的内容每次运行都不同。去掉 `--stable`，同一条命令会显示线路两侧的时间。",
		beside: "`Fetch` 是长轮询，在 broker 端挂起到有消息为止，这里按应答返回的时刻排列。`OffsetCommit` 没有谁在等，所以放在最后：\n" +
			"它一定晚于数据库的 `COMMIT`，但与 `COMMIT` 之后的各行谁先谁后，每次不一定。这里的 broker 是内嵌的。",
	},
}

// pageName is the file of a mode's page, or of the index, which lies beside the directory of the pages.
func pageName(name, lang string) string {
	if lang == "zh" {
		return name + ".zh.md"
	}
	return name + ".md"
}

// modePages are the index and the pages in both languages, by path below docs/.
func modePages() (map[string]string, error) {
	pages := map[string]string{}
	for lang, words := range pageWords {
		table := modesMarkdown(lang, func(name string) string { return "modes/" + pageName(name, lang) })
		pages[pageName("modes", lang)] = fmt.Sprintf("%s\n\n[%s](%s)\n\n%s\n\n%s\n%s\n",
			words.title, words.other, pageName("modes", otherLang(lang)), words.intro, table, words.hazards)
		modes := stock.Modes()
		for i, m := range modes {
			page, err := modePage(modes, i, lang)
			if err != nil {
				return nil, fmt.Errorf("page of %s: %w", m.Name, err)
			}
			pages["modes/"+pageName(m.Name, lang)] = page
		}
	}
	return pages, nil
}

func otherLang(lang string) string {
	if lang == "zh" {
		return "en"
	}
	return "zh"
}

// modePage is the page of one mode: its essay, with the claims before its sections, and then the pictures and the commands.
func modePage(modes []stock.Mode, i int, lang string) (string, error) {
	m, words := modes[i], pageWords[lang]
	doc, err := m.Doc()
	if err != nil {
		return "", err
	}
	title, essay, _ := strings.Cut(strings.TrimSpace(in(doc, lang)), "\n")
	opening, sections, _ := strings.Cut(essay, "\n## ")
	var b strings.Builder
	add := func(parts ...string) { b.WriteString(strings.Join(parts, "\n") + "\n\n") }
	add(title)
	add(pageLinks(modes, i, lang))
	add("*" + in(m.Title, lang) + "*")
	add(strings.TrimSpace(opening))
	add(words.claims, "", claimsTable(m, lang))
	add("## " + strings.TrimSpace(sections))
	if d := m.Diagrams(); d.Good != "" {
		add(words.diagrams)
		add(words.good, "", "```mermaid", strings.TrimSpace(d.Good), "```")
		if d.Break != "" {
			add(words.broken, "", "```mermaid", strings.TrimSpace(d.Break), "```")
		} else {
			add(words.nothing)
		}
	}
	if trace := m.Trace(); trace != "" {
		add(words.trace, "", words.traced)
		if slices.Contains(m.Needs, stock.NeedKafka) {
			add(words.beside)
		}
		add("```text", strings.TrimSpace(trace), "```")
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}

// pageLinks lead to the index, the other language, and the modes before and after.
func pageLinks(modes []stock.Mode, i int, lang string) string {
	words := pageWords[lang]
	links := []string{
		fmt.Sprintf("[%s](../%s)", words.all, pageName("modes", lang)),
		fmt.Sprintf("[%s](%s)", words.other, pageName(modes[i].Name, otherLang(lang))),
	}
	if i > 0 {
		links = append(links, fmt.Sprintf("[← %s](%s)", modes[i-1].Name, pageName(modes[i-1].Name, lang)))
	}
	if i+1 < len(modes) {
		links = append(links, fmt.Sprintf("[%s →](%s)", modes[i+1].Name, pageName(modes[i+1].Name, lang)))
	}
	return strings.Join(links, " · ")
}

// claimsTable is a row per store.
func claimsTable(m stock.Mode, lang string) string {
	if len(m.Stores) == 0 {
		return pageWords[lang].noClaims
	}
	words := modeWords[lang]
	rows := []string{
		"| " + words.store + " | " + strings.Join(stock.Hazards, " | ") + " |",
		"| --- |" + strings.Repeat(" --- |", len(stock.Hazards)),
	}
	for _, s := range m.Stores {
		rows = append(rows, "| "+string(s)+" | "+strings.Join(m.Claims[s].Row(), " | ")+" |")
	}
	return strings.Join(append(rows, "", words.legend), "\n")
}

// writePages writes the pages below dir, and removes those of modes that are no more.
func writePages(dir string) error {
	pages, err := modePages()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "modes"), 0o755); err != nil { //nolint:gosec // pages are for everybody to read
		return err
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // the same
			return err
		}
	}
	there, err := filepath.Glob(filepath.Join(dir, "modes", "*.md"))
	if err != nil {
		return err
	}
	for _, file := range slices.DeleteFunc(there, func(file string) bool { return pages["modes/"+filepath.Base(file)] != "" }) {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}
