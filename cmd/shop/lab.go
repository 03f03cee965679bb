package main

import (
	"errors"
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

//go:generate go run . lab --docs ../../docs

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

func newLab(lang string) *cobra.Command {
	f := labFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "lab",
		Short: both("Try every point at which a fault can strike, and say which modes survive", "在每一个可能的位置注入故障，看哪些模式守得住").In(lang),
		Long: both(`Plays the schedules of each fault on private servers: three replicas, each with a proxy of its own before every server. A
request is stopped at each of its commands in turn, the fault is injected there, a second request (the rival) is served, and
the judge reads stock and orders. The shop contains no code for the lab. The lab compares its findings with the claims of the
modes: a letter that is not claimed fails, and so does a claimed letter that is not found.

A cell is one mode, store and fault; a schedule is one position at which the fault is injected. By default the lab plays the
committed witnesses of a cell that is known to be broken, and every schedule of one that must be exact; --all plays every
schedule of both. If one mode and one fault are selected, the lab prints the worst schedule command by command; the JSON of such
a cell is what --replay reads.

--random plays random schedules of the cells that must be exact, for the duration --for; the same --seed draws the same
schedules. With threads, replicas, slow and pause some of them also hold a rival and a third request, and the three go on in a
random order. Each schedule that breaks something is written to out/random-SEED-N.json, for --replay.

--expiry forced ends the locks of a stopped or killed holder (pause, crash) at their servers at once, instead of waiting for
the TTL. That is faster, but the holder's own clock does not move. A holder that checks its clock before it writes still trusts
its lock, so the lab may break a mode that such a pause would not break. Nor does the lab test how a holder behaves once its
clock says that the lock is over. Therefore the default is awaited, and only awaited findings enter the matrix. See
docs/lab.md.

--serve tests your own service in the same way, in any language. The lab starts three replicas of it, with proxies between them
and private Redis and MySQL servers. Your service makes no claims, so the lab reports everything that breaks it. See
docs/lab-anybody.md; examples/ has three services to begin with.

Needs redis-server and mariadbd or mysqld on PATH.

The lab exits with 1 if a finding is not as claimed, if something broke your service, or if a schedule was vacuous or diverged; with
3 if no schedule at all could be judged.`,
			`在私有服务器上逐个演练每种故障的调度：三个副本，每个副本与每个服务器之间各有一个代理。把请求依次停在它的每一条命令上，就在这里注入故障，让第二个请求（对手）得到处理，再由裁判读库存和订单。服务里没有任何为实验室准备的代码。实验室把所见与模式的声明对照：出现没有声明的字母算失败，声明了却没有出现的也算失败。

一个格子是一个模式、一种存储、一种故障；一个调度是注入故障的一个位置。默认情况下，已知会出错的格子只跑仓库里记录的见证，必须精确的格子跑全部调度；--all 两者都跑全部调度。只选一个模式和一种故障时，逐条命令打印最坏的调度；这种格子的 JSON 就是 --replay 要读的文件。

--random 在必须精确的格子里随机抽调度，时长由 --for 指定；--seed 相同，抽到的调度就相同。在 threads、replicas、slow 和 pause 中，有些调度还会拦住对手和第三个请求，三者按随机顺序继续。打破了什么的调度写入 out/random-SEED-N.json，供 --replay 用。

--expiry forced 在持有者停顿或被 kill（pause、crash）时，立即在服务器上让锁过期，不等 TTL。这样更快，但持有者自己的时钟没有走：写之前看时钟的持有者仍然信任自己的锁，所以实验室可能打破真实停顿打不破的模式；也测不出持有者的时钟说锁已过期之后会怎么做。因此默认是 awaited，也只有 awaited 的结果会写进矩阵。见 docs/lab.zh.md。

--serve 用同样的方法检验你自己的服务，不限语言：实验室起它的三个副本，中间放代理，再起私有的 Redis 和 MySQL。你的服务没有声明，所以凡是能打破它的都会报告。见 docs/lab-anybody.zh.md；examples/ 里有三个服务可以先试。

PATH 上要有 redis-server，以及 mariadbd 或 mysqld。

退出码为 1：结果与声明不符、你的服务被打破，或有调度无效（VACUOUS）、走偏；为 3：没有一个调度能够判定。`).In(lang),
		Example: "  shop lab\n  shop lab --mode lua-lock --fault pause\n  shop lab --mode lua-lock --fault pause --out story.json\n  shop lab --replay story.json\n  shop lab --mode etcd --fault pause,crash --expiry forced\n  shop lab --random --seed 7 --for 10m\n" +
			"  shop lab --serve 'python app.py --port {{port}} --redis {{redis}}' --request 'POST /buy?product={{product}}' \\\n" +
			"    --reset-redis 'SET stock:{{product}} {{stock}}' --stock-redis 'GET stock:{{product}}' --orders-redis 'LRANGE orders:{{product}} 0 -1'",
		Args: arguments(0, 0),
		RunE: run(func(cmd *cobra.Command, _ []string) error { return runLab(cmd, &f) }),
	}
	f.add(cmd)
	return cmd
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
		f.output.addOldForms(cmd, formJSON)
		f.output.addOldFile(cmd, "save")
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

func runLab(cmd *cobra.Command, f *labFlags) error {
	f.lang = f.output.language(cmd, f.lang)
	if f.docs != "" {
		return writeMatrixPages(f.docs)
	}
	if err := f.random.check(cmd); err != nil {
		return err
	}
	service, err := f.serve.service(cmd)
	if err != nil {
		return err
	}
	if service != nil && !cmd.Flags().Changed("lanes") {
		f.lanes = defaultServeLanes
	}
	line := newLabLine(cmd.ErrOrStderr(), f.lang)
	defer line.clear()
	o, err := f.options(line)
	if err != nil {
		return err
	}
	switch {
	case f.output.gives(formHTML) && (f.random.random || f.replay != "" || f.tell != ""):
		return usage(both("a page tells the outcomes of cells: --html and -o html exclude --random, --replay and --tell", "网页展示的是格子的结果：--html 和 -o html 不能与 --random、--replay、--tell 同用"))
	case f.random.random:
		return randomLab(cmd, f, o, line)
	case f.replay != "" && service != nil:
		return usage(both("--replay and --serve exclude each other: the file of --replay describes the service", "--replay 与 --serve 不能同用：--replay 的文件里已经描述了服务"))
	case f.tell != "":
		return tellWitnesses(cmd, f, o)
	case f.replay != "":
		return replayLab(cmd, f, o)
	case service != nil:
		o.Serve, o.Extras = service, nil
		return exploreServe(cmd, f, o, line)
	}
	modes, err := registry()
	if err != nil {
		return err
	}
	if err := faultlab.CheckCells(modes, o); err != nil {
		return misuse(err)
	}
	res, err := faultlab.Explore(cmd.Context(), o)
	line.clear()
	if err != nil {
		return f.interrupted(cmd, res, err)
	}
	if f.update != "" {
		if err := updateMatrix(f.update, res); err != nil {
			return err
		}
	}
	if err := f.print(cmd, res); err != nil {
		return err
	}
	switch n := res.Wrong(); {
	case res.Schedules == 0:
		return &exitError{code: exitInconclusive, err: both("none of %d cells could be judged", "%d 个格子没有一个能够判定").Errorf(len(res.Cells))}
	case n > 0:
		return &exitError{code: exitFailed, err: both("%d of %d cells are not as they must be", "%d 个格子不符合要求（共 %d 个）").Errorf(n, len(res.Cells))}
	}
	return nil
}

// interrupted prints the cells that were through when the user stopped the lab; cause is the error that it ended with.
func (f *labFlags) interrupted(cmd *cobra.Command, res *faultlab.Result, cause error) error {
	if cmd.Context().Err() == nil || res == nil || len(res.Cells) == 0 {
		return cause
	}
	return errors.Join(cause, f.print(cmd, res))
}

// options checks the flags.
func (f *labFlags) options(line *labLine) (faultlab.Options, error) {
	o := faultlab.Options{Modes: f.modes, All: f.all, Pairs: f.pairs, Lanes: f.lanes, Stories: f.stories, Tell: f.output.gives(formHTML)}
	for _, name := range f.modes {
		if !slices.ContainsFunc(stock.Modes(), func(m stock.Mode) bool { return m.Name == name }) {
			return o, usage(both("--mode %q: no such mode; 'shop modes' lists them", "--mode %q：没有这个模式；'shop modes' 列出全部模式"), name)
		}
	}
	for _, name := range f.stores {
		if !slices.Contains(api.Stores, api.Store(name)) {
			return o, usage(both("--store %q: want redis, sql or etcd", "--store %q：应为 redis、sql 或 etcd"), name)
		}
		o.Stores = append(o.Stores, api.Store(name))
	}
	for _, name := range f.faults {
		if _, ok := fault.Named(api.Hazard(name)); !ok {
			return o, usage(both("--fault %q: want one of %s", "--fault %q：可选的有 %s"), name, strings.Join(faultNames(), ", "))
		}
		o.Faults = append(o.Faults, api.Hazard(name))
	}
	if f.beyond {
		if o.Faults != nil {
			return o, usage(both("--beyond and --fault exclude each other", "--beyond 与 --fault 不能同用"))
		}
		for _, x := range fault.Beyond {
			o.Faults = append(o.Faults, x.Name)
		}
	}
	switch {
	case f.lanes < 1 || f.lanes > 64:
		return o, usage(both("--lanes %d: want 1 to 64", "--lanes %d：应为 1 到 64"), f.lanes)
	case f.times < 1:
		return o, usage(both("--times %d: want 1 or more", "--times %d：应为 1 或更大"), f.times)
	case f.expiry != string(faultlab.Awaited) && f.expiry != string(faultlab.Forced):
		return o, usage(both("--expiry %q: want awaited or forced", "--expiry %q：应为 awaited 或 forced"), f.expiry)
	case f.update != "" && f.expiry == string(faultlab.Forced):
		return o, usage(both("--update and --expiry forced exclude each other: the matrix holds what real expiry shows", "--update 与 --expiry forced 不能同用：矩阵只收真实过期的结果"))
	case f.update != "" && !f.all:
		return o, usage(both("--update needs --all: a matrix is made of every schedule", "--update 须与 --all 同用：矩阵由全部调度得出"))
	}
	ttl, err := time.ParseDuration(f.ttl)
	if err != nil || ttl < 100*time.Millisecond || ttl > time.Minute {
		return o, usage(both("--ttl %q: want 100ms to 1m", "--ttl %q：应为 100ms 到 1m"), f.ttl)
	}
	o.TTL, o.Learn, o.Expiry = ttl, f.update != "", faultlab.Expiry(f.expiry)
	o.Log = func(format string, args ...any) { fmt.Fprintf(line, format+"\n", args...) }
	o.Extras = labExtras(f.modes, o.Log)
	o.Binary, err = os.Executable()
	o.Tally = line.tally
	o.Progress = func(c faultlab.Cell) {
		text := c.Line(f.lang)
		if f.serve.f.Serve != "" {
			text = c.ServeLine(f.lang)
		}
		_, _ = io.WriteString(line, text)
	}
	return o, err
}

// print writes the result: as text the report, and the worst schedule of a single cell as a story.
func (f *labFlags) print(cmd *cobra.Command, res *faultlab.Result) error {
	return f.output.write(cmd, func(w io.Writer, form string) error {
		switch form {
		case formJSON:
			return writeIndented(w, res)
		case formHTML:
			return res.WritePage(w, faultlab.PageOptions{
				Lang: f.lang, Version: version(), Command: again("lab", cmd.Flags()), Made: time.Now(), Secrets: secretsIn(cmd.Flags()),
			})
		}
		return f.write(w, res)
	})
}

// write writes the text.
func (f *labFlags) write(w io.Writer, res *faultlab.Result) error {
	told := res.Played
	if len(told) == 0 && res.Worst != nil && (res.Serve == nil || !res.Exact()) {
		told = []faultlab.Played{*res.Worst}
	}
	for _, p := range told {
		if err := p.Write(w, f.lang); err != nil {
			return err
		}
	}
	if res.Serve != nil {
		return res.WriteServe(w, f.lang)
	}
	return res.Write(w, f.lang)
}
