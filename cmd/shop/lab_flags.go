package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/faultlab"
	"lastitem/faultlab/fault"
	"lastitem/internal/api"
	"lastitem/internal/stock"
)

// labFlags is the command line of 'shop lab'.
type labFlags struct {
	modes, stores, faults       []string
	all, pairs, beyond, stories bool
	replay, update, docs, tell  string
	lang, ttl                   string
	expiry                      string
	lanes, times                int
	output                      output
	random                      randomFlags
	serve                       serveFlags
}

// add declares the flags.
func (f *labFlags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	set.SortFlags = false
	section(set, both("Cells", "格子").In(f.lang), func() { f.addCells(set) })
	section(set, both("Schedules", "调度").In(f.lang), func() { f.addSchedules(set) })
	section(set, both("Random schedules", "随机调度").In(f.lang), func() { f.random.add(set, f.lang) })
	section(set, both("Output", "输出").In(f.lang), func() {
		set.BoolVar(&f.stories, "stories", false, both("text: tell every schedule", "文本格式：逐条讲述每个调度").In(f.lang))
		f.output.add(cmd, f.lang, formText, formJSON, formHTML)
		f.output.addBesides(cmd, formHTML)
		addLang(set, &f.lang)
		set.StringVar(&f.update, "update", "", both("merge the findings into this matrix.json; with --all", "把结果合并进这个 matrix.json；须与 --all 同用").In(f.lang))
		set.StringVar(&f.tell, "tell", "", both("record the stories of committed witnesses that this directory (faultlab/stories) lacks; nothing else is played", "为这个目录（faultlab/stories）里还没有故事的见证补录故事；其他都不跑").In(f.lang))
		set.StringVar(&f.docs, "docs", "", both("write matrix.md in both languages into this directory, from the committed matrix; nothing is played", "按仓库里的矩阵，把两种语言的 matrix.md 写到这个目录；什么都不跑").In(f.lang))
	})
	section(set, both("Your own service", "你自己的服务").In(f.lang), func() { f.serve.register(set, f.lang) })
	cmd.MarkFlagsMutuallyExclusive("expiry", "replay") // the file says how locks expire
	for _, other := range []string{"replay", "update", "docs", "tell", "all", "pairs", "stories"} {
		cmd.MarkFlagsMutuallyExclusive("random", other)
	}
	for _, other := range []string{"output", "out"} { // --tell and --docs write files of their own, and have no result
		cmd.MarkFlagsMutuallyExclusive("tell", other)
		cmd.MarkFlagsMutuallyExclusive("docs", other)
	}
}

// addCells declares which cells are played.
func (f *labFlags) addCells(set *pflag.FlagSet) {
	set.StringSliceVar(&f.modes, "mode", nil, both("modes, comma-separated (default all)", "模式，逗号分隔（默认全部）").In(f.lang))
	set.StringSliceVar(&f.stores, "store", nil, both("where the count lives: redis, sql, etcd (default all)", "库存放在哪里：redis、sql、etcd（默认全部）").In(f.lang))
	set.StringSliceVar(&f.faults, "fault", nil, both("faults, comma-separated (default threads to late-write, about which the modes make claims): ",
		"故障，逗号分隔（默认 threads 到 late-write，即模式有声明的那些）：").In(f.lang)+strings.Join(faultNames(), ", "))
	set.BoolVar(&f.beyond, "beyond", false, both("play the hazards about which the modes make no claims, instead of the others", "改为跑模式没有声明的那些场景").In(f.lang))
}

// addSchedules declares which schedules are played, and how.
func (f *labFlags) addSchedules(set *pflag.FlagSet) {
	set.BoolVar(&f.all, "all", false, both("play every schedule", "跑全部调度").In(f.lang))
	set.BoolVar(&f.pairs, "pairs", false, both("also hold the rival at each of its commands: two preemptions; takes long", "对手也依次停在它的每条命令上，即两次抢占；很慢").In(f.lang))
	set.StringVar(&f.replay, "replay", "", both("play the schedule of this file again, the JSON of one cell", "重放这个文件（单个格子的 JSON）里的调度").In(f.lang))
	set.IntVar(&f.times, "times", 20, both("how often --replay plays it", "--replay 重放几次").In(f.lang))
	set.IntVar(&f.lanes, "lanes", faultlab.DefaultLanes, both("how many schedules that wait for a lock to expire are played side by side", "需要等锁过期的调度，同时跑几个").In(f.lang))
	set.StringVar(&f.ttl, "ttl", faultlab.DefaultTTL.String(), both("TTL of the locks where they shall expire", "需要等锁过期时锁的 TTL").In(f.lang))
	set.StringVar(&f.expiry, "expiry", string(faultlab.Awaited), both("how the locks of a stopped or killed holder expire: awaited, or forced at the servers", "停顿或被 kill 的持有者，它的锁怎样过期：awaited（等到 TTL）或 forced（在服务器上强制）").In(f.lang))
}

func faultNames() []string {
	var names []string
	for _, name := range fault.Names() {
		names = append(names, string(name))
	}
	return names
}

// options checks the flags.
func (f *labFlags) options(line *faultlab.StatusLine) (faultlab.Options, error) {
	o := faultlab.Options{Modes: f.modes, All: f.all, Pairs: f.pairs, Lanes: f.lanes, Stories: f.stories, Tell: f.output.gives(formHTML)}
	if err := f.selectCells(&o); err != nil {
		return o, err
	}
	if err := f.checkSchedules(); err != nil {
		return o, err
	}
	ttl, err := time.ParseDuration(f.ttl)
	if err != nil || ttl < 100*time.Millisecond || ttl > time.Minute {
		return o, usage(both("--ttl %q: want 100ms to 1m", "--ttl %q：应为 100ms 到 1m"), f.ttl)
	}
	o.TTL, o.Learn, o.Expiry = ttl, f.update != "", faultlab.Expiry(f.expiry)
	o.Log = func(format string, args ...any) { fmt.Fprintf(line, format+"\n", args...) }
	o.Binary, err = os.Executable()
	o.Tally = line.Tally
	o.Progress = func(c faultlab.Cell) {
		text := c.Line(f.lang)
		if f.serve.f.Serve != "" {
			text = c.ServeLine(f.lang)
		}
		_, _ = io.WriteString(line, text)
	}
	return o, err
}

// selectCells checks the modes, stores and faults, and sets them.
func (f *labFlags) selectCells(o *faultlab.Options) error {
	for _, name := range f.modes {
		if !slices.ContainsFunc(stock.Modes(), func(m stock.Mode) bool { return m.Name == name }) {
			return usage(both("--mode %q: no such mode; 'shop modes' lists them", "--mode %q：没有这个模式；'shop modes' 列出全部模式"), name)
		}
	}
	for _, name := range f.stores {
		if !slices.Contains(api.Stores, api.Store(name)) {
			return usage(both("--store %q: want redis, sql or etcd", "--store %q：应为 redis、sql 或 etcd"), name)
		}
		o.Stores = append(o.Stores, api.Store(name))
	}
	for _, name := range f.faults {
		if _, ok := fault.Named(api.Hazard(name)); !ok {
			return usage(both("--fault %q: want one of %s", "--fault %q：可选的有 %s"), name, strings.Join(faultNames(), ", "))
		}
		o.Faults = append(o.Faults, api.Hazard(name))
	}
	if f.beyond {
		if o.Faults != nil {
			return usage(both("--beyond and --fault exclude each other", "--beyond 与 --fault 不能同用"))
		}
		for _, x := range fault.Beyond {
			o.Faults = append(o.Faults, x.Name)
		}
	}
	return nil
}

// checkSchedules refuses flags that say nonsense about how schedules are played, or that cannot be combined with --update.
func (f *labFlags) checkSchedules() error {
	switch {
	case f.lanes < 1 || f.lanes > 64:
		return usage(both("--lanes %d: want 1 to 64", "--lanes %d：应为 1 到 64"), f.lanes)
	case f.times < 1:
		return usage(both("--times %d: want 1 or more", "--times %d：应为 1 或更大"), f.times)
	case f.expiry != string(faultlab.Awaited) && f.expiry != string(faultlab.Forced):
		return usage(both("--expiry %q: want awaited or forced", "--expiry %q：应为 awaited 或 forced"), f.expiry)
	case f.update != "" && f.expiry == string(faultlab.Forced):
		return usage(both("--update and --expiry forced exclude each other: the matrix holds what real expiry shows", "--update 与 --expiry forced 不能同用：矩阵只收真实过期的结果"))
	case f.update != "" && !f.all:
		return usage(both("--update needs --all: a matrix is made of every schedule", "--update 须与 --all 同用：矩阵由全部调度得出"))
	}
	return nil
}

// exclude refuses flags that cannot be combined; serving says whether --serve was given.
func (f *labFlags) exclude(serving bool) error {
	switch {
	case f.output.gives(formHTML) && (f.random.random || f.replay != "" || f.tell != ""):
		return usage(both("a page tells the outcomes of cells: --html and -o html exclude --random, --replay and --tell", "网页展示的是格子的结果：--html 和 -o html 不能与 --random、--replay、--tell 同用"))
	case f.replay != "" && serving:
		return usage(both("--replay and --serve exclude each other: the file of --replay describes the service", "--replay 与 --serve 不能同用：--replay 的文件里已经描述了服务"))
	}
	return nil
}
