package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"lastitem/internal/cli"
	"lastitem/say/redact"
	"lastitem/say/text"
	"lastitem/stack"
)

// upFlags are the flags of 'shop up'.
type upFlags struct {
	stackFlags
	env                               string
	output                            cli.Output
	noRestart, keepFailing, noConsole bool
}

// newUp is the stack for somebody who wants to try the shop with curl.
func newUp(lang string) *cobra.Command {
	f := upFlags{stackFlags: stackFlags{lang: lang}}
	cmd := &cobra.Command{
		Use:   "up",
		Short: text.Of("Start a private stack (Redis, SQL, replicas, balancer) and keep it until interrupted").In(lang),
		Long: text.Of(`Starts the shop on this machine: replicas as separate processes behind a balancer, with Redis and SQL.
Of each backend it takes the URL you give, else a real server found on PATH (redis-server, mariadbd or mysqld, nginx),
else an embedded one, and says which. Everything is private, on loopback, and gone after Ctrl-C, data included.

What only some modes need is started too where it is installed: etcd, ZooKeeper, Consul, five more Redis for Redlock,
and a Kafka broker, real where there are Java and its jars (scripts/real-kafka fetches them), else an embedded one
(kfake).

With --engine the Redis or the SQL is one of several servers of which one takes over when another fails; the log has
their processes, for you to kill. 'shop failover' does that under load.

Replicas and the balancer are started again when they die; so is a store whose data outlive it (MySQL,
MariaDB, etcd, ZooKeeper, Kafka). Where another one dies the stack ends and says what was lost.

A browser that opens the address of the balancer gets the console of 'shop play'; curl gets the list of endpoints.

The admin token, wanted by the routes that set stock, is SHOP_ADMIN_TOKEN if that is set, else a new one. --env writes a
file that sets it in another shell, together with REDIS and SQL, the addresses of the private servers; the file is
deleted at the end.`).In(lang),
		Example: "  shop up\n  shop up --port 9000 --replicas 1 --backend embedded\n" +
			"  shop up --redis redis://localhost:6379/0 --sql 'shop:secret@tcp(localhost:3306)/lastitem'",
		Args: cli.Arguments(0, 0),
		RunE: cli.Run(func(cmd *cobra.Command, _ []string) error { return up(cmd, &f) }),
	}
	set := cmd.Flags()
	cli.Flags{
		{"port", &f.port, 8080, text.Of("port of the balancer on 127.0.0.1; 0 takes a free one")},
		{"replicas", &f.replicas, 3, text.Of("number of replicas")},
		{"backend", &f.backend, stack.Auto, backendHelp},
	}.Add(set, lang)
	addOwn(set, lang, &f.own)
	cli.Flags{
		{"env", &f.env, nil, text.Of("file to write for other shells to source: SHOP_ADMIN_TOKEN, REDIS and " +
			"SQL")},
		{"no-restart", &f.noRestart, nil, text.Of("end the stack when a part of it dies; else replicas, " +
			"balancer and durable stores are started again")},
		{"keep-failing", &f.keepFailing, nil, text.Of("keep a replica that fails in the balancer's round, " +
			"for a fault under test")},
		{"no-console", &f.noConsole, nil, text.Of("leave out the console and GET /events, as on a production " +
			"'shop serve'")},
	}.Add(set, lang)
	cli.FileFlag(set, "env")
	addRTT(set, lang, &f.rtt)
	addEngine(cmd, lang, &f.engine)
	f.output.Secret = true
	f.output.Add(cmd, lang, cli.Text, cli.JSON)
	cli.AddLang(set, &f.lang)
	return cmd
}

// up starts the stack, prints it, and runs it until ctx ends, or until a part dies that cannot be restarted.
func up(cmd *cobra.Command, f *upFlags) (err error) {
	if err := f.check(cmd); err != nil {
		return err
	}
	defer announceEnd(cmd, f.lang)()
	var log stackLog
	end, err := startEngine(cmd.Context(), f.engine, &f.own, f.lang, log.to(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer func() { err = closed(err, end()) }()
	o := f.options(log.to(cmd.ErrOrStderr()))
	con, err := f.listen(&o, &log)
	if err != nil {
		return err
	}
	defer con.close()
	ctx := cmd.Context()
	running, err := stack.Start(ctx, o)
	switch {
	case err != nil && ctx.Err() != nil:
		return cli.Ended(cli.ExitInterrupted, text.Of("interrupted before the stack was up"))
	case errors.Is(err, syscall.EADDRINUSE):
		return otherPort.Errorf(err)
	case err != nil:
		return err
	}
	if err := con.serve(ctx, running, f, o.Log); err != nil {
		return errors.Join(err, running.Close())
	}
	return errors.Join(f.untilDone(cmd, running, con, o.Log), running.Close())
}

// check refuses flags that cannot work, and servers of the user's own that do not answer.
func (f *upFlags) check(cmd *cobra.Command) error {
	if err := f.stackFlags.check(cmd.Flags()); err != nil {
		return err
	}
	if err := checkEnv(f.env); err != nil {
		return err
	}
	_, err := newGuest(cmd.Context(), f.own) // only to see that they answer
	return err
}

// options returns what to start.
func (f *upFlags) options(log func(format string, args ...any)) stack.Options {
	o := f.own.AddTo(stack.Options{
		Restart: !f.noRestart, KeepFailing: f.keepFailing, Env: drainEnv(), RTT: f.rtt,
		Replicas: f.replicas, Backend: f.backend, Token: adminToken(), Advice: adviser(f.lang, "up", f.backend, true),
		Lang: f.lang, Log: log,
	})
	if f.port != 0 {
		o.Listen = net.JoinHostPort("127.0.0.1", strconv.Itoa(f.port))
	}
	return o
}

// untilDone puts the first product in stock, prints the stack, and waits until ctx ends or a part has died. It leaves
// neither the file of --env nor the console.
func (f *upFlags) untilDone(cmd *cobra.Command, running *stack.Stack, con *upConsole,
	log func(format string, args ...any)) error {
	ctx := cmd.Context()
	if err := firstStock(ctx, running); err != nil {
		log("%v", err) // a server that is given may be down for now
	}
	removeEnv, err := writeEnv(f.env, running)
	if err != nil {
		return err
	}
	err = f.output.Write(cmd, func(w io.Writer, form string) error {
		if form == cli.JSON {
			return writeStackJSON(w, running, f)
		}
		return printStack(w, running, f)
	})
	if err != nil {
		return errors.Join(err, removeEnv())
	}
	select {
	case <-ctx.Done():
	case <-running.Done():
	}
	con.close()
	return errors.Join(running.Err(), removeEnv())
}

// drainEnv is the drain of replicas behind a balancer of ours, which keeps idle connections for 4 s; SHOP_DRAIN
// replaces it.
func drainEnv() []string { return []string{"SHOP_DRAIN=" + cmp.Or(os.Getenv("SHOP_DRAIN"), "5s")} }

// writeStackJSON writes all addresses, with the passwords.
func writeStackJSON(w io.Writer, s *stack.Stack, f *upFlags) error {
	all := map[string]any{
		"url": s.URL, "token": s.Token, "balancer": s.Balancer, "replicas": s.Replicas,
		"redis": s.Redis, "sql": s.SQL, "logs": s.Dir,
	}
	if f.rtt > 0 {
		all["rtt"] = f.rtt.String()
	}
	if !f.noConsole {
		all["console"] = consoleAddress(s.URL, s.Token)
	}
	for _, x := range s.Extras() {
		all[x.Name] = x.Services[0]
		if x.Name == stack.Redlock {
			all[x.Name] = x.Services
		}
	}
	return cli.WriteJSON(w, all)
}

// printStack prints where everything is. Passwords of servers that the user gave are masked, those of an engine not.
func printStack(w io.Writer, s *stack.Stack, f *upFlags) error {
	// A private server's password is shown: it is how one gets in with redis-cli or mariadb.
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, where, what string) { fmt.Fprintf(t, "  %s\t%s\t%s\n", name, where, what) }
	line("balancer", s.Balancer.URL, s.Balancer.Kind)
	for _, r := range s.Replicas {
		line(r.Name, r.URL, fmt.Sprintf("pid %d", r.PID))
	}
	backends := []stack.Service{s.Redis, s.SQL}
	for _, x := range s.Extras() {
		backends = append(backends, x.Services...)
	}
	for i, b := range backends {
		url := b.URL
		if b.PID == 0 && (f.engine == "" || i > 1) {
			url = redact.Address(url)
		}
		line(b.Name, url, b.Kind)
	}
	said := upTexts.In(f.lang)
	if f.rtt > 0 {
		line("rtt", f.rtt.String(), said.rtt)
	}
	if !f.noConsole {
		line("console", consoleAddress(s.URL, s.Token), said.console)
	}
	line("token", s.Token, said.token)
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
`, s.URL, s.Token, forAnotherShell(s, f.env), said.shell, said.try, said.end)
	return err
}

// upTexts are the sentences around the addresses, by language.
var upTexts = text.Table(struct{ token, shell, try, end, rtt, console string }{
	"for setting stock, returns and the list of reservations (SHOP_ADMIN_TOKEN)", "For another shell:",
	"Put 100 of product 101 in stock, sell one, look:", "Ctrl-C ends it all.",
	"round trip from each replica to its servers; the addresses above bypass the delay",
	"the modes in the browser, live",
})

// forAnotherShell is what to type in another shell: the file that has the variables, or the line that sets them.
func forAnotherShell(s *stack.Stack, env string) string {
	if env == "" {
		return exports(s)
	}
	if !strings.Contains(env, "/") { // else a shell searches its PATH for it
		env = "./" + env
	}
	return ". " + cli.Quote(env)
}

// exports is the shell line that sets the variables used by the commands in the docs. It leaves out the user's own
// servers, so that their passwords are not printed.
func exports(s *stack.Stack) string {
	line := envBegins + cli.Quote(s.Token)
	if s.Redis.PID != 0 {
		line += " REDIS=" + cli.Quote(s.Redis.URL)
	}
	if s.SQL.Kind != "given" {
		line += " SQL=" + cli.Quote(s.SQL.URL)
	}
	return line
}
