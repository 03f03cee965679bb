package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lastitem/console"
	"lastitem/contract/api"
	"lastitem/internal/cli"
	"lastitem/loadtest"
	"lastitem/loadtest/compare"
	"lastitem/loadtest/plan"
	"lastitem/say/redact"
	layout "lastitem/say/report"
	"lastitem/say/text"
	"lastitem/stack"
)

// playFlags are the flags of 'shop play'.
type playFlags struct {
	stackFlags
	noOpen bool
}

func newPlay(lang string) *cobra.Command {
	f := playFlags{stackFlags: stackFlags{lang: lang}}
	cmd := &cobra.Command{
		Use:   "play",
		Short: text.Of("Start a private stack with the console: run the modes in the browser and watch them").In(lang),
		Long: text.Of(`Starts the shop on this machine (see 'shop up') and, beside it, the console: a page to run the modes
and to watch them. The stock falls, the orders rise, every critical section is a bar on the lane of its replica, and in
the end the judge of 'shop demo' says what was sold. The page comes from this binary, and asks nothing of other hosts.

The printed address has the admin token after its '#', a part that browsers send to no server. Anyone who has the
address can start runs. The console listens on 127.0.0.1 only. Ctrl-C ends it all.`).In(lang),
		Example: "  shop play\n  shop play --port 9000 --backend embedded --no-open\n  shop play --rtt 1ms",
		Args:    cli.Arguments(0, 0),
		RunE:    cli.Run(func(cmd *cobra.Command, _ []string) error { return play(cmd, f) }),
	}
	set := cmd.Flags()
	cli.Flags{
		{"port", &f.port, 8090, text.Of("port of the console on 127.0.0.1; 0 takes a free one")},
		{"replicas", &f.replicas, 3, text.Of("replicas to start; a run may use fewer")},
		{"backend", &f.backend, stack.Auto, backendHelp},
	}.Add(set, lang)
	addOwn(set, lang, &f.own)
	addRTT(set, lang, &f.rtt)
	cli.Flags{
		{"no-open", &f.noOpen, nil, text.Of("only print the address; do not open a browser")},
	}.Add(set, lang)
	cli.AddLang(set, &f.lang)
	return cmd
}

// play runs the stack and the console until ctx ends, or until a part dies that cannot be restarted.
func play(cmd *cobra.Command, f playFlags) error {
	if err := f.check(cmd.Flags()); err != nil {
		return err
	}
	defer announceEnd(cmd, f.lang)()
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(f.port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return otherPort.Errorf(err)
	}
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	return f.serveOn(cmd, l)
}

// serveOn starts the stack and serves the console on l.
func (f playFlags) serveOn(cmd *cobra.Command, l net.Listener) error {
	var log stackLog
	options := stack.Options{
		Replicas: f.replicas, Backend: f.backend, Token: adminToken(), Log: log.to(cmd.ErrOrStderr()), Lang: f.lang,
		Advice: adviser(f.lang, "play", f.backend, true), RTT: f.rtt, Restart: true, Env: []string{"SHOP_EVENTS=true"},
	}
	return asGuest(cmd.Context(), f.own, options, func(ctx context.Context, running *stack.Stack) error {
		c, err := newConsole(driverOf(running, f.rtt, log.lines()), options.Log, nil)
		if err != nil {
			return err
		}
		defer c.Close()
		page := "http://" + l.Addr().String()
		if err := f.tell(redact.Plain(cmd.OutOrStdout()), consoleAddress(page, running.Token)); err != nil {
			return err
		}
		if is, _ := layout.Terminal(cmd.OutOrStdout()); is && !f.noOpen {
			openBrowser(consoleAddress(page, c.OneTimeCode()))
		}
		return serveConsole(ctx, l, c)
	})
}

// tell prints the address of the page.
func (f playFlags) tell(w io.Writer, address string) error {
	said := text.Of("\nconsole: %s\n\nThe address has the admin token in it. Ctrl-C ends it all.\n")
	_, err := fmt.Fprintf(w, said.In(f.lang), address)
	return err
}

// openBrowser asks the desktop to show an address, which other users can read in the list of processes. Where there is
// no desktop nothing happens: the address has been printed. A browser that this starts has a session of its own, so
// that Ctrl-C in this terminal does not end it.
func openBrowser(address string) {
	program := map[string]string{"linux": "xdg-open", "darwin": "open"}[runtime.GOOS]
	if program == "" || runtime.GOOS == "linux" && os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return
	}
	opener := exec.Command(program, address)
	opener.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if opener.Start() == nil {
		go func() { _ = opener.Wait() }()
	}
}

// playDriver makes the console's runs: the plan, the engine and the judge of 'shop demo', on a stack that stays.
type playDriver struct {
	url, token string   // of the stack's balancer
	replicas   []string // host:port
	rtt        time.Duration
	said       []string // by the stack about itself
	// markLogs is as in compare.Comparing; nil where the logs are out of reach.
	markLogs func() (since func(n int) []string)
	local    bool // the stack is this process's own, so that there may be more servers beside it
}

// driverOf drives a private stack.
func driverOf(s *stack.Stack, rtt time.Duration, said []string) *playDriver {
	d := &playDriver{url: s.URL, token: s.Token, rtt: rtt, said: said, markLogs: s.MarkLogs, local: true}
	for _, r := range s.Replicas {
		d.replicas = append(d.replicas, r.Addr)
	}
	return d
}

// Modes lists the modes of the stack.
func (d *playDriver) Modes(ctx context.Context) ([]api.Mode, error) {
	control, err := loadtest.NewControl(d.url, d.token)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	return control.Modes(ctx)
}

// Product is the one that the demo sells.
func (d *playDriver) Product() int64 { return demoPlan().Product }

// demoPlan is the plan of 'shop demo'.
func demoPlan() plan.Plan {
	plans, _ := plan.Named("demo")
	return plans[0]
}

// demoPlans returns the demo's plan for modes that deduct, the plan reserve for those that reserve, and the plan limit
// for those that break a limit per buyer, each with what override changes.
func demoPlans(modes []api.Mode, override func(*plan.Plan)) (plans []plan.Plan) {
	reserve, _ := plan.Named("reserve")
	limit, _ := plan.Named("limit")
	for _, p := range []plan.Plan{demoPlan(), reserve[0], limit[0]} {
		if slices.ContainsFunc(modes, p.Suits) {
			override(&p)
			plans = append(plans, p.WithDefaults())
		}
	}
	return plans
}

// Drive runs the modes of a spec through compare.Modes.
func (d *playDriver) Drive(ctx context.Context, spec console.Spec, report func(console.Step)) error {
	override := func(p *plan.Plan) { p.VUs, p.Stock, p.Requests = spec.Clients, spec.Stock, 0 }
	p := demoPlan()
	override(&p)
	if err := p.Validate(); err != nil {
		return err
	}
	url, closeURL, err := d.address(ctx, spec.Replicas)
	if err != nil {
		return err
	}
	defer closeURL()
	what := compare.Comparing{
		Version: builtFrom(), Replicas: spec.Replicas, RTT: d.rtt, Stack: d.said,
		MarkLogs: d.markLogs, Progress: func(s compare.Step) { report(playStep(s)) },
	}
	s := service{url: url, token: d.token, replicas: spec.Replicas, lang: spec.Lang}
	if err := s.fill(ctx, &what, strings.Join(spec.Modes, ",")); err != nil {
		return err
	}
	what.Plans = demoPlans(what.Modes, override)
	if len(what.Modes) == 1 && what.Modes[0].Tickets {
		followed, _ := plan.Named("tickets")
		what.Plans[0].Follow = followed[0].Follow
	}
	c, err := compare.Modes(ctx, what)
	if err != nil {
		return err
	}
	if len(c.Results) == 0 && len(c.Failed) == 0 && len(c.Skipped) > 0 {
		return fmt.Errorf("%s: %s", c.Skipped[0].Mode, c.Skipped[0].Why)
	}
	return nil
}

// address is where the requests of a run go: to the stack's balancer, or, where fewer replicas are wanted than there
// are, to one in this process.
func (d *playDriver) address(ctx context.Context, replicas int) (url string, closing func(), err error) {
	switch {
	case replicas == len(d.replicas):
		return d.url, func() {}, nil
	case replicas == 1:
		return "http://" + d.replicas[0], func() {}, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	end := inBackground(ctx, func(ctx context.Context) {
		_ = serveBalancer(ctx, l, stack.NewBalancer(d.replicas[:replicas]))
	})
	return "http://" + l.Addr().String(), end, nil
}

// playStep translates a step of a comparison.
func playStep(s compare.Step) console.Step {
	step := console.Step{Index: s.Index, Total: s.Total, Mode: s.Mode, Phase: console.PhaseReset, Ended: s.Done}
	if p := s.Running; p != nil {
		step.Phase, step.Done = string(p.Phase), p.Done
		step.Accepted, step.Refused, step.Failed = p.Accepted, p.Refused, p.Failed
	}
	if s.Result != nil {
		step.Result = s.Result
	}
	if s.Err != nil {
		step.Error = s.Err.Error()
	}
	if s.Done {
		step.Phase = ""
	}
	return step
}
