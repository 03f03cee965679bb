package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/faultlab"
	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// serveFlags describe somebody's own service for 'shop lab --serve'.
type serveFlags struct {
	serviceFlags
	lockTTL string
	allowed []string
}

// defaultServeLanes is smaller than for our own service: three replicas of an unknown service may be heavy.
const defaultServeLanes = 3

func (s *serveFlags) register(set *pflag.FlagSet, lang string) {
	f := &s.f
	text := func(into *string, name, value string, help api.Text) { set.StringVar(into, name, value, help.In(lang)) }
	several := func(into *[]string, name string, help api.Text) {
		set.StringArrayVar(into, name, nil, help.In(lang)+both("; may be repeated", "；可给多个").In(lang))
	}
	text(&f.Serve, "serve", "", both("test your own service: the command that starts a replica, with {{port}} and {{redis}} or {{mysql}} in it (docs/lab-anybody.md)", "检验你自己的服务：启动一个副本的命令，其中要有 {{port}}，以及 {{redis}} 或 {{mysql}}（见 docs/lab-anybody.zh.md）"))
	several(&f.Env, "env", both("NAME=VALUE in the environment of the replicas, with the same placeholders", "副本的环境变量 NAME=VALUE，可用同样的占位符"))
	text(&f.Ready, "ready", "", both("path that answers 2xx or 3xx when a replica is ready (default: any HTTP answer counts)", "副本就绪后返回 2xx 或 3xx 的路径（默认有任何 HTTP 应答即算就绪）"))
	s.serviceFlags.register(set, lang)
	set.BoolVar(&f.RepeatWithoutKey, "repeat-without-key", false, both("play the fault retry as a client without a key does: it sends the same request again", "像没有幂等键的客户端那样演练 retry：同样的请求再发一次").In(lang))
	set.BoolVar(&f.KeepRedis, "keep-redis", false, both("do not empty Redis before every schedule", "每个调度之前不清空 Redis").In(lang))
	set.StringSliceVar(&s.allowed, "allow-untested", nil, both("faults, comma-separated, that may stay untested ('?'): without it exit code 3 instead of 0", "允许没有试过（“?”）的故障，逗号分隔；不给则退出码为 3 而不是 0").In(lang))
	text(&s.lockTTL, "lock-ttl", "", both("TTL of your service's locks (default: read from Redis; with {{ttl_ms}} or {{ttl_s}} in --serve the lab sets it)", "你的服务的锁的 TTL（默认从 Redis 读出；--serve 里写了 {{ttl_ms}} 或 {{ttl_s}} 则由实验室设置）"))
}

// service checks the flags and returns the service that they describe; nil without --serve.
func (s *serveFlags) service(cmd *cobra.Command) (*rig.Foreign, error) {
	if s.f.Serve == "" {
		if cmd.Flags().Changed("replay") { // its file has only the names of these
			return nil, alone(cmd.Flags(), "serve", "env", "header")
		}
		return nil, alone(cmd.Flags(), "serve")
	}
	f := s.f
	for _, name := range []string{"mode", "store", "beyond", "update", "random"} {
		if cmd.Flags().Changed(name) {
			return nil, usage(both("--%s is about lastitem's own modes, --serve about your service", "--%s 针对 lastitem 自己的模式，--serve 针对你的服务"), name)
		}
	}
	if err := s.read(&f); err != nil {
		return nil, err
	}
	var err error
	for _, name := range s.allowed {
		if !slices.ContainsFunc(fault.Ladder, func(x fault.Fault) bool { return string(x.Name) == name }) {
			return nil, usage(both("--allow-untested %q: there is no such fault", "--allow-untested %q：没有这种故障"), name)
		}
	}
	if s.lockTTL != "" {
		if f.LockTTL, err = time.ParseDuration(s.lockTTL); err != nil || f.LockTTL < time.Millisecond || f.LockTTL > time.Minute {
			return nil, usage(both("--lock-ttl %q: want 1ms to 1m", "--lock-ttl %q：应为 1ms 到 1m"), s.lockTTL)
		}
	}
	return equip(&f)
}

// equip checks the description of a service and sets its working directory, which a file of --replay does not hold.
func equip(f *rig.Foreign) (*rig.Foreign, error) {
	if err := f.Check(); err != nil {
		return nil, misuse(err)
	}
	var err error
	if f.Dir, err = os.Getwd(); err != nil {
		return nil, err
	}
	return f, nil
}

// exploreServe tests a foreign service and reports; the error carries the exit code.
func exploreServe(cmd *cobra.Command, f *labFlags, o faultlab.Options, line *faultlab.StatusLine) error {
	if err := faultlab.CheckFaults(o.Serve, o.Faults); err != nil {
		return misuse(err)
	}
	res, err := faultlab.Explore(cmd.Context(), o)
	line.Clear()
	if errors.Is(err, rig.ErrOutOfReach) {
		return misuse(err)
	}
	if err != nil {
		return f.interrupted(cmd, res, err)
	}
	if err := f.print(cmd, res); err != nil {
		return err
	}
	switch {
	case res.Broken() == 0:
	case f.output.fileForm == formJSON:
		fmt.Fprintf(line, both("to play the worst schedule again: shop lab --replay %s\n", "重放最坏的调度：shop lab --replay %s\n").In(f.lang), f.output.file)
	default:
		fmt.Fprintln(line, both("to play the worst schedule again: run this command with --out story.json, then shop lab --replay story.json",
			"重放最坏的调度：先给本命令加上 --out story.json 运行一次，再执行 shop lab --replay story.json").In(f.lang))
	}
	return unbroken(res, f.serve.allowed)
}

// unbroken returns nil if nothing broke the service, every schedule proved something, and everything was tried that
// allowed does not name; the error carries the exit code.
func unbroken(res *faultlab.Result, allowed []string) error {
	untested := res.Untested(allowed...)
	switch n := res.Broken(); {
	case n > 0:
		return &exitError{code: exitFailed, err: both("of %[2]d [fault|faults], %[1]d [breaks|break] the service", "%d 种故障打破了这个服务（共 %d 种）").Errorf(n, len(res.Cells))}
	case res.Judged == 0:
		return &exitError{code: exitInconclusive, err: both("none of %d [schedule|schedules] could be judged", "%d 个调度没有一个能够判定").Errorf(res.Schedules)}
	case !res.Proved():
		return &exitError{code: exitFailed, err: both("nothing broke the service, but some schedules proved nothing: see above", "没有故障打破这个服务，但有些调度什么也没证明，见上").Errorf()}
	case len(untested) > 0:
		return &exitError{code: exitInconclusive, err: both("not everything was tried: see above; --allow-untested %s accepts that", "不是全部都试过，见上；加 --allow-untested %s 表示接受").Errorf(strings.Join(untested, ","))}
	}
	return nil
}
