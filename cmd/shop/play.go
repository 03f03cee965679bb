package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lastitem/internal/localstack"
	"lastitem/internal/localstack/guest"
)

// playFlags are the flags of 'shop play'.
type playFlags struct {
	port, replicas int
	backend        string
	own            guest.Servers
	rtt            time.Duration
	noOpen         bool
	lang           string
}

func newPlay() *cobra.Command {
	var f playFlags
	cmd := &cobra.Command{
		Use:   "play",
		Short: "Start a private stack with the console: run the modes in the browser and watch them",
		Long: `Starts the shop on this machine (see 'shop up') and, beside it, the console: a page to run the modes and to watch them. The stock
falls, the orders rise, every critical section is a bar on the lane of its replica, and in the end the judge of 'shop demo' says
what was sold. The page comes from this binary, and asks nothing of other hosts.

The address that is printed has the admin token behind its '#', where browsers keep it to themselves. Whoever has it can start
runs. The console listens on 127.0.0.1 only. Ctrl-C ends it all.`,
		Example: "  shop play\n  shop play --port 9000 --backend embedded --no-open\n  shop play --rtt 1ms",
		Args:    arguments(0, 0),
		RunE:    run(func(cmd *cobra.Command, _ []string) error { return play(cmd, f) }),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&f.port, "port", 8090, "port of the console on 127.0.0.1; 0 takes a free one")
	flags.IntVar(&f.replicas, "replicas", 3, "replicas to start; a run may use fewer")
	flags.StringVar(&f.backend, "backend", localstack.Auto, "auto, embedded or local (real servers only)")
	addOwn(flags, &f.own)
	addRTT(flags, &f.rtt, "")
	flags.BoolVar(&f.noOpen, "no-open", false, "only print the address; do not open a browser")
	addLang(flags, &f.lang)
	return cmd
}

// play runs the stack and the console until ctx ends, or until a part dies that cannot be restarted.
func play(cmd *cobra.Command, f playFlags) error {
	switch {
	case f.replicas < 1 || f.replicas > maxReplicas:
		return usage("--replicas %d: want 1 to %d, each is a process of its own", f.replicas, maxReplicas)
	case f.port < 0 || f.port > 65535:
		return usage("--port %d: want 0 to 65535", f.port)
	}
	if err := cmp.Or(checkBackendFlag(f.backend), checkLang(f.lang)); err != nil {
		return err
	}
	far, err := newFarther(cmd.Flags(), f.rtt, f.lang, givenFlag(cmd.Flags(), ownFlags...))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(f.port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; choose another with --port", err)
	}
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	g, err := newGuest(cmd.Context(), f.own)
	if err != nil {
		return err
	}
	return closed(f.private(cmd, l, g, far), g.Leave(cmd.Context()))
}

// private starts the stack and serves the console on l.
func (f playFlags) private(cmd *cobra.Command, l net.Listener, g *guest.Guest, far *farther) error {
	var log stackLog
	options, err := g.Options(f.own.Options(localstack.Options{
		Replicas: f.replicas, Backend: f.backend, Token: os.Getenv(envToken), Log: log.to(cmd.ErrOrStderr()), Lang: f.lang,
		Advice: adviser("play", f.backend, true), Restart: true, Env: []string{"SHOP_EVENTS=true"},
	}))
	if err != nil {
		return err
	}
	return private(cmd.Context(), options, far, func(ctx context.Context, stack *localstack.Stack) error {
		c, err := newConsole(driverOf(stack, far.rtt, log.lines()), options.Log, nil)
		if err != nil {
			return err
		}
		defer c.Close()
		address := consoleAddress("http://"+l.Addr().String(), stack.Token)
		if err := f.tell(cmd.OutOrStdout(), address); err != nil {
			return err
		}
		if is, _ := terminal(cmd.OutOrStdout()); is && !f.noOpen {
			openBrowser(ctx, address)
		}
		return serveConsole(ctx, l, c)
	})
}

// tell prints the address of the page.
func (f playFlags) tell(w io.Writer, address string) error {
	text := "\nconsole: %s\n\nThe address has the admin token in it. Ctrl-C ends it all.\n"
	if f.lang == "zh" {
		text = "\n控制台：%s\n\n地址里带有管理员令牌。按 Ctrl-C 全部停止。\n"
	}
	_, err := fmt.Fprintf(w, text, address)
	return err
}

// openBrowser asks the desktop to show an address. Where there is none nothing happens: the address has been printed.
func openBrowser(ctx context.Context, address string) {
	program := map[string]string{"linux": "xdg-open", "darwin": "open"}[runtime.GOOS]
	if program == "" || runtime.GOOS == "linux" && os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return
	}
	opener := exec.CommandContext(ctx, program, address) //nolint:gosec // a program of ours to choose, and our own address
	if opener.Start() == nil {
		go func() { _ = opener.Wait() }()
	}
}
