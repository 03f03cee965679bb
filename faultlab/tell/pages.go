package tell

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lastitem/contract/api"
	"lastitem/faultlab"
	"lastitem/faultlab/fault"
	"lastitem/say/text"
)

// pageText has the texts of the matrix page around its tables.
type pageText struct {
	head, table, meanings, blocked, blockedHead, beyond, hazard, broken, exact, witnesses, wire string
	// a format, of a number
	schedules string
	kept      map[faultlab.Blocked]string
}

// notOnTheWire lists the hazards that no proxy can bring about, each with the Go test that covers it.
var notOnTheWire = []struct {
	what text.Text
	test string
}{
	{text.Of("interleavings without a command in between: a process's own mutex"), "internal/lock.TestMutex"},
	{text.Of("a replica's own queue in front of the lock, and how often it may pass a lease on"),
		"internal/lock/handoff.TestEngineCohortIsBounded"},
	{text.Of("which requests share a batch"), "internal/stock.TestQueueCommitsTogether"},
	{text.Of("the same key twice in one batch"), "internal/stock.TestQueueRepeatsWithinABatch"},
	{text.Of("a panic between the read and the write: nothing is lost, the lock is released, the answer is 500"),
		"internal/stock.TestConformance/*/*/*/panic, internal/handler.TestPanicIsAnInternalProblem"},
	{text.Of("a balancer that sends a request again: the proxies are between the replicas and their servers, and do not " +
		"see it"), "deploy.TestNginxSendsOnce, stack.TestNeverSentTwice"},
}

var pageTexts = text.Table(pageText{
	head: `# Modes and faults

[中文](matrix.zh.md)

Every mode under every fault, as ` + "`shop lab`" + ` found it on real servers: three replicas, each with a proxy of its own before
every server. A request is stopped at each of its commands in turn, once before the server has it and once before the
answer is back; the fault strikes there, a rival is served, and the judge reads the ledger. "Exact" means that no
schedule of the table below broke it; it is no proof beyond them.

` + "`make lab`" + ` plays the witnesses of a broken cell and every schedule of an exact one; of an exact cell that needs etcd,
ZooKeeper or Consul it plays a sample. ` + "`make lab ALL=1`" + ` plays every schedule of every cell.
` + "`shop lab --serve`" + ` tests [your own service](lab-anybody.md), in any language.
`,
	meanings: "## What the columns and letters mean", table: "mode | store",
	schedules: "`(…)` claimed, not played by the lab · %d [schedule|schedules].",
	blocked: "## While the holder is paused\n\nHow long nobody else can buy the product when the holder's process is " +
		"stopped (SIGSTOP) at the worst of its commands. With the stock in SQL the worst command is inside the " +
		"transaction, which keeps the row locked even after the lease has ended. Modes that `threads` or `replicas` breaks " +
		"are left out, and so is `kafka`, which the lab does not play.\n",
	kept: map[faultlab.Blocked]string{
		faultlab.NotBlocked: "not blocked", faultlab.UntilLease: "until the holder's lease or session ends",
		faultlab.UntilHolder: "until the holder runs again",
	},
	blockedHead: "others are blocked | modes",
	beyond: `## Hazards without claims

No mode makes a claim about these hazards. The list holds what the lab found; a run fails if it finds a
letter that is not in the list, or misses one that is. ` + "`make lab BEYOND=1`" + ` plays them. Modes that two concurrent requests
break without any fault are left out.
`,
	hazard: "* `%s`: %s\n", broken: "broken: %s", exact: "exact: %s",
	witnesses: "## Witnesses\n\nThe first schedule that showed each outcome is its witness: `faultlab/matrix.json` has " +
		"them all. `shop lab --mode MODE --store STORE --fault FAULT` plays those of a cell again and tells the worst " +
		"as a story, and " +
		"the console shows them command by command.\n",
	wire: "## Not on the wire\n\nA proxy cannot bring about the following cases, so Go tests cover them.\n",
})

// markdown renders the matrix as a page. modes gives the rows, and the cells that cannot happen.
func markdown(m faultlab.Matrix, lang string, modes []api.Mode) string {
	t := pageTexts.In(lang)
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
				said := string(c.Found)
				if claim := string(mode.Claims[store][f.Name]); !there && claim != "" && claim != "–" {
					said = "(" + claim + ")"
				} else if !there {
					said = claim
				}
				b.WriteString(" | " + said)
			}
			b.WriteString(" |\n")
		}
	}
	fmt.Fprintf(&b, "\n%s · %s\n\n%s\n\n%s\n", api.Legend(lang), text.Sprintf(t.schedules, tried), t.meanings,
		api.Definitions(lang))
	writePaused(&b, m, t)
	writeBeyond(&b, m, lang, t)
	b.WriteString(t.witnesses + "\n" + t.wire + "\n")
	for _, n := range notOnTheWire {
		fmt.Fprintf(&b, "* %s: `%s`\n", n.what.In(lang), n.test)
	}
	return b.String()
}

// WriteMatrix writes the page of the matrix in both languages, matrix.md and matrix.zh.md, into a directory. modes
// gives the rows, and the cells that cannot happen.
func WriteMatrix(m faultlab.Matrix, dir string, modes []api.Mode) error {
	for lang, name := range map[string]string{"en": "matrix.md", "zh": "matrix.zh.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(markdown(m, lang, modes)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeBeyond lists, for each hazard beyond the ladder, which modes it breaks and which it does not.
func writeBeyond(b *strings.Builder, m faultlab.Matrix, lang string, t pageText) {
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

// writePaused lists how long a paused holder keeps others out, for each mode.
func writePaused(b *strings.Builder, m faultlab.Matrix, t pageText) {
	names := map[faultlab.Blocked]*groups{faultlab.NotBlocked: {}, faultlab.UntilLease: {}, faultlab.UntilHolder: {}}
	for _, c := range m.Cells {
		if g := names[c.Blocked]; c.Fault == api.Pause && g != nil {
			g.add(string(c.Store), c.Mode)
		}
	}
	b.WriteString(t.blocked + "\n| " + t.blockedHead + " |\n| --- | --- |\n")
	for _, kept := range []faultlab.Blocked{faultlab.NotBlocked, faultlab.UntilLease, faultlab.UntilHolder} {
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

// Hazard is a column of the matrix.
type Hazard struct {
	Name  api.Hazard `json:"name"`
	Title text.Text  `json:"title"`
	// Claimed says that the modes make claims about it.
	Claimed bool `json:"claimed"`
}

// Hazards returns the columns of the matrix, in their order.
func Hazards() []Hazard {
	var all []Hazard
	for _, f := range fault.All() {
		all = append(all, Hazard{Name: f.Name, Title: f.Title, Claimed: f.Claimed()})
	}
	return all
}
