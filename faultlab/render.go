package faultlab

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// pageText has the texts of the matrix page around its tables.
type pageText struct {
	head, table, meanings, blocked, blockedHead, beyond, hazard, broken, exact, witnesses, witnessHead, wire string
	schedules                                                                                                string // a format, of a number
	kept                                                                                                     map[Blocked]string
}

// notOnTheWire lists the hazards that no proxy can bring about, each with the Go test that covers it.
var notOnTheWire = []struct {
	what api.Text
	test string
}{
	{api.Text{En: "interleavings without a command in between: a process's own mutex", Zh: "中间没有任何命令的交错：进程内的互斥锁"}, "internal/lock.TestMutex"},
	{api.Text{En: "a replica's own queue in front of the lock, and how often it may pass a lease on", Zh: "锁前面的本地队列，以及一次租约最多转手几回"}, "internal/lock/handoff.TestEngineCohortIsBounded"},
	{api.Text{En: "which requests share a batch", Zh: "哪些请求会合并到同一批"}, "internal/stock.TestQueueCommitsTogether"},
	{api.Text{En: "the same key twice in one batch", Zh: "同一批里出现两次同一个幂等键"}, "internal/stock.TestQueueRepeatsWithinABatch"},
	{api.Text{En: "a panic between the read and the write: nothing is lost, the lock is released, the answer is 500", Zh: "读和写之间发生 panic：什么都不丢，锁已释放，应答 500"}, "internal/stock.TestConformance/*/*/*/panic, internal/handler.TestPanicIsAnInternalProblem"},
	{api.Text{En: "a balancer that sends a request again: the proxies are between the replicas and their servers, and do not see it", Zh: "负载均衡把请求重发一遍：代理在副本与后端之间，看不到这一段"}, "deploy.TestNginxSendsOnce, internal/localstack.TestNeverSentTwice"},
}

var pageTexts = map[string]pageText{
	"en": {
		head: `# Modes and faults

[中文](matrix.zh.md)

Every mode under every fault, as ` + "`shop lab`" + ` found it on real servers: three replicas, each with a proxy of its own before every server. A
request is stopped at each of its commands in turn, once before the server has it and once before the answer is back; the
fault strikes there, a rival is served, and the judge reads the ledger. "Exact" means that no schedule of the table below
broke it; it is no proof beyond them.

` + "`make lab`" + ` plays the witnesses of a broken cell and every schedule of an exact one; of an exact cell that needs etcd, ZooKeeper or Consul it plays
a sample. ` + "`make lab ALL=1`" + ` plays every schedule of every cell.
` + "`shop lab --serve`" + ` tests [your own service](lab-anybody.md), in any language.
`,
		meanings: "## What the columns and letters mean", table: "mode | store", schedules: "%d [schedule|schedules].",
		blocked: "## While the holder is paused\n\nHow long nobody else can buy the product when the holder's process is stopped (SIGSTOP) at the worst of its commands. With the stock in SQL the worst command is inside the transaction, which keeps the row locked even after the lease has ended. Modes that `threads` or `replicas` breaks are left out, and so is `kafka`, which the lab does not play.\n",
		kept: map[Blocked]string{
			NotBlocked: "not blocked", UntilLease: "until the holder's lease or session ends", UntilHolder: "until the holder runs again",
		},
		blockedHead: "others are blocked | modes",
		beyond: `## Hazards without claims

No mode makes a claim about these hazards. The list holds what the lab found; a run fails if it finds a letter that is not in the list, or misses one that is. ` + "`make lab BEYOND=1`" + ` plays them. Modes that
two concurrent requests break without any fault are left out.
`,
		hazard: "* `%s`: %s\n", broken: "broken: %s", exact: "exact: %s",
		witnesses:   "## Witnesses\n\nThe first schedule that showed each outcome. `shop lab --mode MODE --store STORE --fault FAULT` plays them again and tells the worst as a story. A command is shown with its first key, a script with the first line of its comment; `lane#` and `{#}` stand for the prefix of a lane (one of the stacks that run side by side) and for the product.\n",
		witnessHead: "mode | store | fault | outcome | where A was held | where B was held",
		wire:        "## Not on the wire\n\nA proxy cannot bring about the following cases, so Go tests cover them.\n",
	},
	"zh": {
		head: `# 模式与故障

[English](matrix.md)

每个模式在每种故障下的结果，由 ` + "`shop lab`" + ` 在真实服务器上跑出来：三个副本，每个副本到每台服务器之间都有自己的代理。请求依次停在
它的每一条命令上（一次停在服务器收到之前，一次停在应答返回之前），故障就在这一点发生，对手办完业务，再由裁判读账本。
“精确”是说下表所有调度都没能打破它，表外的情形不作保证。

` + "`make lab`" + ` 重放坏格子的坏例，并跑完精确格子的全部调度；要用 etcd、ZooKeeper 或 Consul 的精确格子只抽几个来跑。` + "`make lab ALL=1`" + ` 把每一格的全部调度都跑完。
` + "`shop lab --serve`" + ` 检验[你自己的服务](lab-anybody.zh.md)，不限语言。
`,
		meanings: "## 各列与字母的含义", table: "模式 | 存储", schedules: "共 %d 个调度。",
		blocked: "## 持有者停住期间\n\n持有者进程停（SIGSTOP）在最糟的那条命令上时，其他人多久买不了这件商品。库存在 SQL 时，最糟的是停在事务里：租约到期了，行锁还没放。已被 `threads` 或 `replicas` 打破的模式不列；`kafka` 不在实验室里跑，也不列。\n",
		kept: map[Blocked]string{
			NotBlocked: "不阻塞", UntilLease: "到持有者的租约或会话结束", UntilHolder: "到持有者恢复运行",
		},
		blockedHead: "其他人阻塞到何时 | 模式",
		beyond: `## 没有声明的故障

各模式对下列故障没有声明。列出的是实验室测出的结果，再跑时多出或缺少一个字母都算失败。` + "`make lab BEYOND=1`" + ` 会跑这些故障；没有故障、仅凭两个并发请求就能打破的模式不在其中。
`,
		hazard: "* `%s`：%s\n", broken: "出错：%s", exact: "精确：%s",
		witnesses:   "## 坏例\n\n每种结果第一个出现的调度。`shop lab --mode 模式 --store 存储 --fault 故障` 会重放它们，并把最坏的一个讲成故事。命令只写到第一个键，脚本用它注释的第一行表示；`lane#` 和 `{#}` 分别代表某一道（lane，并行运行的一组服务）的前缀和商品编号。\n",
		witnessHead: "模式 | 存储 | 故障 | 结果 | A 停在哪里 | B 停在哪里",
		wire:        "## 代理做不到的\n\n下列情形没有命令可拦，由 Go 测试覆盖。\n",
	},
}

// Markdown renders the matrix as a page. modes gives the rows, and the cells that cannot happen.
func (m Matrix) Markdown(lang string, modes []api.Mode) string {
	t := pageTexts[lang]
	var b strings.Builder
	b.WriteString(t.head + "\n| " + t.table)
	for _, f := range fault.Ladder {
		b.WriteString(" | " + string(f.Name))
	}
	b.WriteString(" |\n" + strings.Repeat("| --- ", len(fault.Ladder)+2) + "|\n")
	tried := 0
	for _, mode := range modes {
		for _, store := range mode.Stores {
			fmt.Fprintf(&b, "| `%s` | %s", mode.Name, store)
			for _, f := range fault.Ladder {
				c, there := m.Cell(mode.Name, store, f.Name)
				tried += c.Tried
				text := string(c.Found)
				if claim := string(mode.Claims[store][f.Name]); !there && claim != "" && claim != "–" {
					text = "(" + claim + ")"
				} else if !there {
					text = claim
				}
				b.WriteString(" | " + text)
			}
			b.WriteString(" |\n")
		}
	}
	fmt.Fprintf(&b, "\n%s · %s\n\n%s\n\n%s\n", api.Legend(lang), api.Sprintf(t.schedules, tried), t.meanings, api.Definitions(lang))
	m.writeBlocked(&b, t)
	m.writeBeyond(&b, lang, t)
	m.writeWitnesses(&b, t)
	b.WriteString("\n" + t.wire + "\n")
	for _, n := range notOnTheWire {
		text := n.what.En
		if lang == "zh" {
			text = n.what.Zh
		}
		fmt.Fprintf(&b, "* %s: `%s`\n", text, n.test)
	}
	return b.String()
}

// WritePages writes the page in both languages, matrix.md and matrix.zh.md, into a directory. modes is as for [Matrix.Markdown].
func (m Matrix) WritePages(dir string, modes []api.Mode) error {
	for lang, name := range map[string]string{"en": "matrix.md", "zh": "matrix.zh.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(m.Markdown(lang, modes)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeWitnesses lists the schedules that break something.
func (m Matrix) writeWitnesses(b *strings.Builder, t pageText) {
	b.WriteString(t.witnesses + "\n| " + t.witnessHead + " |\n" + strings.Repeat("| --- ", 6) + "|\n")
	for _, c := range m.Cells {
		for _, letter := range letters {
			w, there := c.Witnesses[string(letter)]
			if !there {
				continue
			}
			name := string(c.Fault)
			if w.Variant != "" {
				name += " (" + w.Variant + ")"
			}
			fmt.Fprintf(b, "| `%s` | %s | %s | %c | %s | %s |\n", c.Mode, c.Store, name, letter, place(w.A), place(w.B))
		}
	}
}

// place formats a position for a cell of a Markdown table.
func place(p *rig.Position) string {
	if p == nil {
		return "–"
	}
	return "`" + strings.ReplaceAll(p.String(), "|", "\\|") + "`"
}

// writeBeyond lists, for each hazard beyond the ladder, which modes it breaks and which it does not.
func (m Matrix) writeBeyond(b *strings.Builder, lang string, t pageText) {
	b.WriteString(t.beyond + "\n")
	for _, f := range fault.Beyond {
		var broken, exact groups
		for _, c := range m.Cells {
			switch {
			case c.Fault != f.Name:
			case c.Found == api.Exact:
				exact.add(string(c.Store), c.Mode)
			default:
				broken.add(string(c.Found)+" "+string(c.Store), c.Mode)
			}
		}
		fmt.Fprintf(b, t.hazard, f.Name, f.Title.In(lang))
		fmt.Fprintf(b, "  * "+t.broken+"\n  * "+t.exact+"\n", broken, exact)
	}
	b.WriteString("\n")
}

// writeBlocked lists how long a paused holder keeps others out, for each mode.
func (m Matrix) writeBlocked(b *strings.Builder, t pageText) {
	names := map[Blocked]*groups{NotBlocked: {}, UntilLease: {}, UntilHolder: {}}
	for _, c := range m.Cells {
		if g := names[c.Blocked]; c.Fault == api.Pause && g != nil {
			g.add(string(c.Store), c.Mode)
		}
	}
	b.WriteString(t.blocked + "\n| " + t.blockedHead + " |\n| --- | --- |\n")
	for _, kept := range []Blocked{NotBlocked, UntilLease, UntilHolder} {
		fmt.Fprintf(b, "| %s | %s |\n", t.kept[kept], names[kept])
	}
	b.WriteString("\n")
}

// groups are modes below the words that they have in common, in the order in which the words came.
type groups struct {
	words []string
	modes map[string][]string
}

func (g *groups) add(words, mode string) {
	if g.modes == nil {
		g.modes = map[string][]string{}
	}
	if g.modes[words] == nil {
		g.words = append(g.words, words)
	}
	g.modes[words] = append(g.modes[words], "`"+mode+"`")
}

// String is Markdown, of one line.
func (g groups) String() string {
	var parts []string
	for _, w := range g.words {
		parts = append(parts, "**"+w+"** "+strings.Join(g.modes[w], ", "))
	}
	return cmp.Or(strings.Join(parts, " · "), "–")
}
