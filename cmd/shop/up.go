package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lastitem/internal/localstack"
)

// upFlags are the flags of 'shop up'.
type upFlags struct {
	port, replicas int
	backend        string
	own            ownServers
	json           bool
	lang           string
	noRestart      bool
	keepFailing    bool
	rtt            time.Duration
}

// maxReplicas is how many a stack may have on one machine.
const maxReplicas = 32

// newUp is the stack for somebody who wants to try the shop with curl.
func newUp() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a private stack (Redis, SQL, replicas, balancer) and keep it until interrupted",
		Long: `Starts the shop on this machine: replicas as separate processes behind a balancer, with Redis and SQL. Of each backend it
takes the URL you give, else a real server found on PATH (redis-server, mariadbd or mysqld, nginx), else an embedded one,
and says which. Everything is private, on loopback, and gone after Ctrl-C, data included.

What only some modes need is started too where it is installed: etcd, ZooKeeper, Consul, five more Redis for Redlock, and a
Kafka broker, real where there are Java and its jars (scripts/real-kafka fetches them), else an embedded one (kfake).

Replicas and the balancer are started again when they die; so is a store whose data outlive it (MySQL,
MariaDB, etcd, ZooKeeper, Kafka). Where another one dies the stack ends and says what was lost.

The admin token, wanted by the routes that set stock, is SHOP_ADMIN_TOKEN if that is set, else a new one.`,
		Example: "  shop up\n  shop up --port 9000 --replicas 1 --backend embedded\n" +
			"  shop up --redis redis://localhost:6379/0 --sql 'shop:secret@tcp(localhost:3306)/lastitem'",
		Args: arguments(0, 0),
		RunE: run(func(cmd *cobra.Command, _ []string) error { return up(cmd, f) }),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&f.port, "port", 8080, "port of the balancer on 127.0.0.1; 0 takes a free one")
	flags.IntVar(&f.replicas, "replicas", 3, "number of replicas")
	flags.StringVar(&f.backend, "backend", localstack.Auto, "auto, embedded or local (real servers only)")
	f.own.add(flags)
	flags.BoolVar(&f.noRestart, "no-restart", false, "end the stack when a part of it dies; else replicas, balancer and durable stores are started again")
	flags.BoolVar(&f.keepFailing, "keep-failing", false, "keep a replica that fails in the balancer's round, for a fault under test")
	addRTT(flags, &f.rtt, "")
	flags.BoolVar(&f.json, "json", false, "print the addresses as JSON")
	flags.StringVar(&f.lang, "lang", "en", "language of what to do next: en or zh")
	return cmd
}

// up starts the stack, prints it, and runs it until ctx ends, or until a part dies that cannot be restarted.
func up(cmd *cobra.Command, f upFlags) error {
	switch {
	case f.replicas < 1 || f.replicas > maxReplicas:
		return usage("--replicas %d: want 1 to %d, each is a process of its own", f.replicas, maxReplicas)
	case f.port < 0 || f.port > 65535:
		return usage("--port %d: want 0 to 65535", f.port)
	}
	if err := cmp.Or(checkBackendFlag(f.backend), checkLang(f.lang)); err != nil {
		return err
	}
	far, err := newFarther(cmd.Flags(), f.rtt, f.own.given(cmd.Flags()))
	if err != nil {
		return err
	}
	defer far.close()
	if _, err := newGuest(cmd.Context(), f.own); err != nil { // only to see that they answer
		return err
	}
	o := f.own.options(localstack.Options{
		Restart: !f.noRestart, KeepFailing: f.keepFailing, Env: drainEnv(),
		Replicas: f.replicas, Backend: f.backend, Token: os.Getenv(envToken), Advice: adviser("up", f.backend, true),
		Log: func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) },
	})
	if f.port != 0 {
		o.Listen = net.JoinHostPort("127.0.0.1", strconv.Itoa(f.port))
	}
	ctx := cmd.Context()
	stack, err := localstack.Start(ctx, far.options(o))
	if err != nil {
		if ctx.Err() != nil {
			return &exitError{code: exitInterrupted, err: errors.New("interrupted before the stack was up")}
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("%w; choose another with --port", err)
		}
		return err
	}
	far.say(stack, o.Log)
	if err := printStack(cmd.OutOrStdout(), stack, f); err != nil {
		return errors.Join(err, stack.Close())
	}
	select {
	case <-ctx.Done():
	case <-stack.Done():
	}
	return errors.Join(stack.Err(), stack.Close())
}

// drainEnv is the drain of replicas behind a balancer of ours, which keeps idle connections for 4 s; SHOP_DRAIN replaces it.
func drainEnv() []string { return []string{"SHOP_DRAIN=" + cmp.Or(os.Getenv("SHOP_DRAIN"), "5s")} }

// checkBackendFlag refuses what is none of localstack's values.
func checkBackendFlag(kind string) error {
	if !slices.Contains([]string{localstack.Auto, localstack.Embedded, localstack.Local}, kind) {
		return usage("--backend %s: want auto, embedded or local", kind)
	}
	return nil
}

// printStack prints where everything is. Passwords of servers that the user gave are masked in the text.
func printStack(w io.Writer, s *localstack.Stack, f upFlags) error {
	if f.json {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		all := map[string]any{
			"url": s.URL, "token": s.Token, "balancer": s.Balancer, "replicas": s.Replicas,
			"redis": s.Redis, "sql": s.SQL, "logs": s.Dir,
		}
		if f.rtt > 0 {
			all["rtt"] = f.rtt.String()
		}
		for _, x := range s.Extras() {
			all[x.Name] = x.Services[0]
			if x.Name == localstack.Redlock {
				all[x.Name] = x.Services
			}
		}
		return enc.Encode(all)
	}
	// A private server's password is shown: it is how one gets in with redis-cli or mariadb.
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, where, what string) { fmt.Fprintf(t, "  %s\t%s\t%s\n", name, where, what) }
	line("balancer", s.Balancer.URL, s.Balancer.Kind)
	for _, r := range s.Replicas {
		line(r.Name, r.URL, fmt.Sprintf("pid %d", r.PID))
	}
	backends := []localstack.Service{s.Redis, s.SQL}
	for _, x := range s.Extras() {
		backends = append(backends, x.Services...)
	}
	for _, b := range backends {
		url := b.URL
		if b.PID == 0 {
			url = localstack.Masked(url)
		}
		line(b.Name, url, b.Kind)
	}
	text := upTexts[f.lang]
	if f.rtt > 0 {
		line("rtt", f.rtt.String(), text.rtt)
	}
	line("token", s.Token, text.token)
	line("logs", s.Dir, "")
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, `
%[4]s

  %[3]s

%[5]s

  curl -X PUT -H 'Authorization: Bearer %[2]s' -H 'Content-Type: application/json' -d '{"stock":100}' %[1]s/products/101/stock
  curl -X POST '%[1]s/deduct_stock/lua-lock?product_id=101'
  curl %[1]s/products/101

%[6]s
`, s.URL, s.Token, exports(s), text.shell, text.try, text.end)
	return err
}

// upTexts are the sentences around the addresses, by language.
var upTexts = map[string]struct{ token, shell, try, end, rtt string }{
	"en": {
		"for the routes that set stock (SHOP_ADMIN_TOKEN)", "For another shell:",
		"Put 100 of product 101 in stock, sell one, look:", "Ctrl-C ends it all.",
		"round trip from each replica to its servers; the addresses above bypass the delay",
	},
	"zh": {
		"设置库存的接口所需的管理员令牌（SHOP_ADMIN_TOKEN）", "在另一个终端里：",
		"给商品 101 上架 100 件，卖一件，再看库存：", "按 Ctrl-C 全部停止。",
		"各副本到后端的往返时间；上面列出的是后端自身的地址，直连不经过这段延迟",
	},
}

// exports is the shell line that sets the variables used by the commands in the docs. It leaves out the user's own servers, so that
// their passwords are not printed.
func exports(s *localstack.Stack) string {
	line := "export SHOP_ADMIN_TOKEN=" + shellWord(s.Token)
	if s.Redis.PID != 0 {
		line += " REDIS=" + shellWord(s.Redis.URL)
	}
	if s.SQL.Kind != "given" {
		line += " SQL=" + shellWord(s.SQL.URL)
	}
	return line
}

// shellWord quotes text as one word of a POSIX shell.
func shellWord(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
