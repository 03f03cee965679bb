package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lastitem/console"
	"lastitem/console/web"
	"lastitem/contract/api"
	manual "lastitem/docs"
	"lastitem/faultlab"
	"lastitem/faultlab/stepper"
	"lastitem/faultlab/tell"
	"lastitem/internal/cli"
	"lastitem/say/redact"
	"lastitem/say/text"
)

// consoleFlags are the flags of 'shop console'.
type consoleFlags struct {
	listen, url, lang string
	replicas, hosts   []string
}

// newConsoleCommand is the console beside a stack that is running already: the service of docker-compose.yml.
func newConsoleCommand(lang string) *cobra.Command {
	f := consoleFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "console",
		Short: text.Of("Serve the console beside a stack that is already running, such as docker-compose's").In(lang),
		Long: text.Of(`Serves the page of 'shop play' for a stack that was started by other means. Its runs put load on --url,
set the stock of product 101, and delete that product's orders; the live steps come from GET /events of each --replica,
so the replicas run with SHOP_EVENTS=true.

It wants the stack's admin token in SHOP_ADMIN_TOKEN, and the page asks for the same token. Everything that needs the
proxies of a private stack is left out. Behind a proxy under another name than localhost or an IP address, give that
name with --host.`).In(lang),
		Example: "  SHOP_ADMIN_TOKEN=... shop console --url http://localhost:8080 --replica http://10.0.0.11:8080 " +
			"--replica http://10.0.0.12:8080",
		Args: cli.Arguments(0, 0),
		RunE: cli.Run(func(cmd *cobra.Command, _ []string) error { return serveConsoleOf(cmd, f) }),
	}
	set := cmd.Flags()
	cli.Flags{
		{"listen", &f.listen, "127.0.0.1:8090", text.Of("address to listen on")},
		{"url", &f.url, nil, text.Of("the stack's balancer, which gets the load")},
		{"replica", &f.replicas, nil, text.Of("a replica, as http://host:port; once for each, in their " +
			"order")},
		{"host", (*cli.List)(&f.hosts), nil, text.Of("host names under which browsers reach the console, " +
			"comma-separated, as SHOP_HOSTS has them; * = any")},
	}.Add(set, lang)
	cli.AddLang(set, &f.lang)
	return cmd
}

// serveConsoleOf serves the console of a running stack until ctx ends.
func serveConsoleOf(cmd *cobra.Command, f consoleFlags) error {
	d, err := f.driver(adminToken())
	if err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
	c, err := newConsole(d, say, f.hosts)
	if err != nil {
		return err
	}
	defer c.Close()
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), text.Of("console: http://%s/console/, which asks for the admin token\n").In(f.lang),
		l.Addr())
	return serveConsole(cmd.Context(), l, c)
}

// driver checks the flags.
func (f consoleFlags) driver(token string) (*playDriver, error) {
	switch {
	case token == "":
		return nil, cli.Usage(text.Of("%s is not set: the console wants the stack's admin token"), envToken)
	case len(f.replicas) == 0:
		return nil, cli.Usage(text.Of("--replica: name each replica of the stack"))
	}
	if _, err := plainURL("url", f.url); err != nil {
		return nil, err
	}
	for _, host := range strings.Fields(strings.Join(f.hosts, " ")) {
		if host != "*" && strings.ContainsAny(host, ":/*") {
			return nil, cli.Usage(text.Of("--host %s: want a name without a port, or *"), host)
		}
	}
	d := &playDriver{url: strings.TrimSuffix(f.url, "/"), token: token}
	d.said = []string{text.Sprintf(text.Of("stack: %s, as given, with %d [replica|replicas]").In(f.lang), d.url,
		len(f.replicas))}
	for _, r := range f.replicas {
		u, err := plainURL("replica", r)
		if err != nil {
			return nil, err
		}
		d.replicas = append(d.replicas, u.Host)
	}
	return d, nil
}

// plainURL reads the value of a flag that names a server: http://host:port and no more.
func plainURL(flag, value string) (*url.URL, error) {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" ||
		u.User != nil {
		return nil, cli.Usage(text.Of("--%s %s: want http://host:port"), flag, redact.Address(value))
	}
	return u, nil
}

// newConsole returns the console of a stack, under these host names besides localhost and IP addresses. Close it.
func newConsole(d *playDriver, say func(format string, args ...any), hosts []string) (*console.Console, error) {
	facts, err := consoleFacts()
	if err != nil {
		return nil, err
	}
	o := console.Options{
		Token: d.token, Hosts: hosts, URL: d.url, Stack: d.said, Version: version(), Files: web.Files(), Facts: facts,
		Log: say,
	}
	if d.local {
		o.Stepper = steps{stepper.New(stepper.Options{Log: say})}
	}
	for i, addr := range d.replicas {
		o.Replicas = append(o.Replicas, console.Replica{Name: strconv.Itoa(i + 1), URL: "http://" + addr})
	}
	return console.New(o, d), nil
}

// matrixPage is the body of GET /console/api/matrix.
type matrixPage struct {
	Hazards []tell.Hazard   `json:"hazards"`
	Cells   []faultlab.Cell `json:"cells"`
}

// witnessPage is the body of GET /console/api/witness: the cell and, where something broke it, the schedule with its
// recorded story.
type witnessPage struct {
	Cell     faultlab.Cell      `json:"cell"`
	Schedule *faultlab.Schedule `json:"schedule,omitempty"`
	Tale     *tell.Tale         `json:"tale,omitempty"`
}

// consoleFacts are the committed findings of the fault lab, and the documentation.
func consoleFacts() (console.Facts, error) {
	matrix, err := faultlab.Committed()
	if err != nil {
		return console.Facts{}, err
	}
	tales, err := tell.Tales()
	if err != nil {
		return console.Facts{}, err
	}
	pages, err := console.NewBook(manual.Files())
	if err != nil {
		return console.Facts{}, err
	}
	byName := map[string]*tell.Tale{}
	for i, t := range tales {
		byName[t.Schedule] = &tales[i]
	}
	page := matrixPage{Hazards: tell.Hazards()}
	for _, c := range matrix.Cells {
		c.Witnesses = nil // one by one, with their stories
		page.Cells = append(page.Cells, c)
	}
	body, err := json.Marshal(page)
	return console.Facts{Matrix: body, Book: pages, Witness: func(w console.Witness) (json.RawMessage, bool) {
		c, there := matrix.Cell(w.Mode, api.Store(w.Store), api.Hazard(w.Fault))
		if !there {
			return nil, false
		}
		found := witnessPage{Cell: c}
		found.Cell.Witnesses = nil
		if there = c.Found == api.Exact; w.Letter != "" {
			var s faultlab.Schedule
			if s, there = c.Witnesses[w.Letter]; there {
				found.Schedule, found.Tale = &s, byName[s.String()]
			}
		}
		body, err := json.Marshal(found)
		return body, there && err == nil
	}}, err
}

// steps gives the console the lessons and states of the stepper as JSON.
type steps struct{ *stepper.Stepper }

// Lessons is the body of GET /console/api/lessons.
func (s steps) Lessons() json.RawMessage {
	body, _ := json.Marshal(map[string][]stepper.Lesson{"lessons": s.Stepper.Lessons()})
	return body
}

// Play is the body of the answer to POST /console/api/step.
func (s steps) Play(ctx context.Context, lesson, moves string) (json.RawMessage, error) {
	state, err := s.Stepper.Play(ctx, lesson, moves)
	if err != nil {
		return nil, err
	}
	return json.Marshal(state)
}

// consoleAddress is the address for browsers of the console that is served below url. Browsers send the part after '#'
// to no server.
func consoleAddress(url, token string) string { return url + "/console/#token=" + token }

// serveConsole serves until ctx ends. The streams to the browsers end first.
func serveConsole(ctx context.Context, l net.Listener, c *console.Console) error {
	return serveUntil(ctx, l, c, 3*time.Second, c.Close)
}
