package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/contract/api"
	"lastitem/internal/cli"
	"lastitem/internal/guest"
	"lastitem/loadtest"
	"lastitem/loadtest/compare"
	"lastitem/say/text"
	"lastitem/stack"
	"lastitem/stack/engine"
)

// ownFlags names the flags of guest.OwnServers.
var ownFlags = []string{"redis", "sql", "redlock", "etcd", "zookeeper", "consul", "kafka"}

// addOwn declares the flags of the user's own servers.
func addOwn(set *pflag.FlagSet, lang string, o *guest.OwnServers) {
	cli.Flags{
		{"redis", &o.Redis, nil, text.Of("your own Redis, as a redis:// URL")},
		{"sql", &o.SQL, nil, text.Of("your own MySQL, as user:password@tcp(host:port)/database, or " +
			"sqlite:/path/file.db")},
		{"redlock", &o.Redlock, nil, text.Of("your own Redis masters for Redlock, three or more redis:// URLs, " +
			"comma-separated")},
		{"etcd", &o.Etcd, nil, text.Of("your own etcd, as http://host:port, several comma-separated")},
		{"zookeeper", &o.ZooKeeper, nil, text.Of("your own ZooKeeper, as host:port, several comma-separated")},
		{"consul", &o.Consul, nil, text.Of("your own Consul, as the http://host:port of an agent")},
		{"kafka", &o.Kafka, nil, text.Of("your own Kafka, as host:port, several comma-separated")},
	}.Add(set, lang)
}

// maxReplicas is how many a stack may have on one machine.
const maxReplicas = 32

// Errors of flags that several commands have.
var (
	replicasRange = text.Of("--replicas %d: want 1 to %d, each is a process of its own")
	portRange     = text.Of("--port %d: want 0 to 65535")
	otherPort     = text.Of("%w; choose another with --port")
)

// checkBackendFlag refuses what is none of stack's values.
func checkBackendFlag(kind string) error {
	if !slices.Contains([]string{stack.Auto, stack.Embedded, stack.Local}, kind) {
		return cli.Usage(text.Of("--backend %s: want auto, embedded or local"), kind)
	}
	return nil
}

// maxRTT is the longest --rtt: a new connection to MySQL takes several round trips, and a replica must connect before
// its start times out.
const maxRTT = time.Second

// addRTT declares --rtt.
func addRTT(set *pflag.FlagSet, lang string, rtt *time.Duration) {
	cli.Flags{
		{"rtt", rtt, nil, text.Of("round trip to add between the replicas and Redis, SQL and the other " +
			"servers, as 1ms (default: none)")},
	}.Add(set, lang)
}

// checkRTT checks --rtt. others are the flags that exclude it.
func checkRTT(set *pflag.FlagSet, rtt time.Duration, others ...string) error {
	if !set.Changed("rtt") {
		return nil
	}
	for _, name := range others {
		if set.Changed(name) {
			return cli.Usage(text.Of("--rtt delays servers that lastitem starts itself; leave out --%s, whose network has a "+
				"round trip of its own"), name)
		}
	}
	if rtt <= 0 || rtt > maxRTT {
		return cli.Usage(text.Of("--rtt %v: want more than 0, and at most %v"), rtt, maxRTT)
	}
	return nil
}

// stackFlags are the flags of the commands that start a stack and keep it.
type stackFlags struct {
	port, replicas int
	backend, lang  string
	engine         string
	own            guest.OwnServers
	rtt            time.Duration
}

// check refuses flags that cannot work.
func (f *stackFlags) check(set *pflag.FlagSet) error {
	switch {
	case f.replicas < 1 || f.replicas > maxReplicas:
		return cli.Usage(replicasRange, f.replicas, maxReplicas)
	case f.port < 0 || f.port > 65535:
		return cli.Usage(portRange, f.port)
	}
	return cmp.Or(checkBackendFlag(f.backend), checkEngine(f.engine), checkRTT(set, f.rtt, ownFlags...))
}

// addEngine declares --engine.
func addEngine(cmd *cobra.Command, lang string, kind *string) {
	cli.Flags{
		{"engine", kind, nil, text.Of("servers that take over from each other: cluster or sentinel as the Redis, " +
			"replicated or galera as the SQL")},
	}.Add(cmd.Flags(), lang)
	for _, other := range []string{"redis", "sql", "rtt"} {
		cmd.MarkFlagsMutuallyExclusive("engine", other)
	}
}

// checkEngine refuses an engine that there is not; "" is none.
func checkEngine(kind string) error {
	if kind != "" && !slices.Contains(engine.Kinds, kind) {
		return cli.Usage(text.Of("engine %q: want one of %s"), kind, strings.Join(engine.Kinds, ", "))
	}
	return nil
}

// startEngine starts an engine and makes it the user's own Redis or SQL. end ends it. With kind "" there is none.
func startEngine(ctx context.Context, kind string, own *guest.OwnServers, lang string,
	say func(format string, args ...any)) (end func() error, err error) {
	if kind == "" {
		return func() error { return nil }, nil
	}
	if err := engine.Installed(kind); err != nil {
		return nil, &cli.Error{Code: exitInconclusive, Err: err}
	}
	e, err := engine.Start(ctx, kind, engine.Options{Log: inLanguage(lang, say)})
	if err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(ctx)
	e.Watch(watching, func(err error) { say("%v", err) })
	if e.Redis != "" {
		own.Redis = e.Redis
	} else {
		own.SQL = e.SQL
	}
	return func() error {
		stop()
		return e.Close()
	}, nil
}

// inLanguage returns a log that translates the formats that it is told.
func inLanguage(lang string, say func(format string, args ...any)) func(format string, args ...any) {
	return func(format string, args ...any) { say(text.Known(format).In(lang), args...) }
}

// adviser returns what works for a command where a backend of its stack is missing: another --backend than kind, and
// the user's own server where the command takes one.
func adviser(lang, command, kind string, takesOwn bool) func(backend string) string {
	return func(backend string) string {
		var ways []string
		embedded := slices.Contains([]string{stack.Redis, stack.MySQL, stack.Nginx, stack.Kafka}, backend)
		if kind == stack.Embedded || kind == stack.Local && embedded {
			ways = append(ways, text.Of("leave out --backend ").In(lang)+kind)
		}
		switch {
		case !takesOwn || backend == stack.Nginx:
		case backend == stack.MySQL:
			ways = append(ways, fmt.Sprintf(text.Of("give a MySQL or MariaDB with 'shop %s --sql'").In(lang), command))
		default:
			ways = append(ways, fmt.Sprintf(text.Of("give your own with 'shop %s --%s'").In(lang), command, backend))
		}
		return strings.Join(ways, text.Of(", or ").In(lang))
	}
}

// newGuest makes sure that the user's own servers answer; an address that cannot be one is an error of the command
// line.
func newGuest(ctx context.Context, own guest.OwnServers) (*guest.Guest, error) {
	g, err := guest.New(ctx, own)
	return g, usageOfAddress(err)
}

// usageOfAddress makes an error about an address one of the command line.
func usageOfAddress(err error) error {
	var e *guest.AddressError
	if errors.As(err, &e) {
		return cli.Misuse(err)
	}
	return err
}

// newGuestLeave is the keeper's last command of a stack on the user's own servers.
func newGuestLeave() *cobra.Command {
	return &cobra.Command{
		Use: "guest-leave", Hidden: true, Args: cli.Arguments(0, 0),
		Short: "Remove what a demo left on the user's servers",
		RunE: cli.Run(func(cmd *cobra.Command, _ []string) error {
			g, err := guest.FromEnvironment()
			if err != nil {
				return usageOfAddress(err)
			}
			return g.Leave(cmd.Context())
		}),
	}
}

// extrasFor returns the servers beside Redis and SQL that the selected modes of this binary need, never nil; its error
// is one of the command line.
func extrasFor(pattern string) ([]string, error) {
	selected, err := compare.Select(modesHere(), pattern)
	if err != nil {
		return nil, cli.Misuse(err)
	}
	extras := []string{}
	for _, m := range selected {
		extras = append(extras, m.Needs...)
	}
	return extras, nil
}

// asGuest runs body on a stack on the user's own servers, as far as there are any, and takes away what it left there.
func asGuest(ctx context.Context, own guest.OwnServers, o stack.Options,
	body func(context.Context, *stack.Stack) error) error {
	g, err := newGuest(ctx, own)
	if err != nil {
		return err
	}
	if o, err = g.AddTo(own.AddTo(o)); err == nil {
		err = onOwnStack(ctx, o, body)
	}
	return closed(err, g.Leave(ctx))
}

// onOwnStack starts a stack, runs body on it and stops it. When a part of the stack dies, body's context ends and the
// error is that death: whatever body saw after it says nothing about a mode.
func onOwnStack(ctx context.Context, o stack.Options, body func(context.Context, *stack.Stack) error) error {
	running, err := stack.Start(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return cli.Ended(cli.ExitInterrupted, text.Of("interrupted before the stack was up"))
		}
		return err
	}
	alive, stop := aliveContext(ctx, running)
	awaitModes(alive, running)
	err = body(alive, running)
	stop()
	if err != nil { // the cause may be a death that is just being noticed
		select {
		case <-running.Done():
		case <-time.After(time.Second):
		}
	}
	if died := running.Err(); died != nil {
		err = died
	}
	return closed(err, running.Close())
}

// announceEnd says at once that Ctrl-C was noticed, since ending a stack takes seconds. Call what it returns at the end
// of the command.
func announceEnd(cmd *cobra.Command, lang string) (undo func() bool) {
	return context.AfterFunc(cmd.Context(), func() {
		fmt.Fprintln(cmd.ErrOrStderr(), text.Of("ending the stack; this takes some seconds").In(lang))
	})
}

// closed joins the error of a command with the error of its cleanup. The exit code of err is kept.
func closed(err, closing error) error {
	var e *cli.Error
	if closing != nil && errors.As(err, &e) {
		return &cli.Error{Code: e.Code, Err: errors.Join(e.Err, closing)}
	}
	return errors.Join(err, closing)
}

// aliveContext returns a context that ends with ctx or when a part of the stack dies.
func aliveContext(ctx context.Context, running *stack.Stack) (context.Context, context.CancelFunc) {
	alive, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-running.Done():
			cancel()
		case <-alive.Done():
		}
	}()
	return alive, cancel
}

// modesPatience is how long a fresh replica may take to have a session with everything that it was given.
const modesPatience = 15 * time.Second

// awaitModes waits until every replica can serve the modes whose backends the stack has: a replica is ready without the
// ones that only some modes need, and meets them a moment later. A mode that is not available by then is listed as
// such.
func awaitModes(ctx context.Context, running *stack.Stack) {
	has := map[string]bool{"redis": true, "sql": true, "mysql": !strings.HasPrefix(running.SQL.URL, "sqlite:")}
	for _, x := range running.Extras() {
		has[x.Name] = true
	}
	ctx, cancel := context.WithTimeout(ctx, modesPatience)
	defer cancel()
	for _, r := range running.Replicas {
		for !serves(ctx, r.URL, has) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

// serves says whether the service offers every mode whose needs are met.
func serves(ctx context.Context, url string, has map[string]bool) bool {
	control, err := loadtest.NewControl(url, "")
	if err != nil {
		return false
	}
	defer control.Close()
	modes, err := control.Modes(ctx)
	for _, m := range modes {
		if !m.Available && met(m, has) {
			return false
		}
	}
	return err == nil
}

// met says whether everything that the mode needs is there.
func met(m api.Mode, has map[string]bool) bool {
	for _, need := range m.Needs {
		if !has[need] {
			return false
		}
	}
	return true
}

// allAvailable lists the modes that cannot be run, and why; nil where there are none.
func allAvailable(what compare.Comparing) error {
	var lacks []string
	for _, m := range what.Modes {
		if !m.Available {
			lacks = append(lacks, m.Name+": "+m.Why)
		}
	}
	if lacks == nil {
		return nil
	}
	return text.Of("--strict: of %[2]d [mode|modes], %[1]d [is|are] not available:\n  %[3]s").Errorf(len(lacks),
		len(what.Modes), strings.Join(lacks, "\n  "))
}

// stackLog keeps what the stack says about itself, for the JSON, and passes it on.
type stackLog struct {
	mu   sync.Mutex
	said []string
}

// to returns the function that the stack logs by, from several goroutines.
func (l *stackLog) to(w io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) {
		l.mu.Lock()
		defer l.mu.Unlock()
		line := fmt.Sprintf(format, args...)
		l.said = append(l.said, line)
		fmt.Fprintln(w, line)
	}
}

func (l *stackLog) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.said...)
}
