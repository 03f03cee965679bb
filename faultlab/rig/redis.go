package rig

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lastitem/stack"
	"lastitem/stack/wire"
)

// node is one of a lane's own Redis servers.
type node struct {
	run      *stack.Running
	password string
	child    stack.Child // how to start it again
	dir      string      // the directory of its data, if it keeps any
	starts   int
	young    bool         // started recently: its restart guard may still be on
	clock    *stack.Clock // nil = the machine's
}

// nodes returns the lane's own Redis servers and its sentinel, whether or not they run.
func (l *Lane) nodes() []node {
	all := []node{l.laneRedis, l.spare}
	for _, n := range l.Own.servers {
		all = append(all, *n)
	}
	if p := l.Pair; p != nil {
		all = append(append(all, p.master, p.old), p.replicas...)
		if p.sentinel != nil {
			all = append(all, p.sentinel.node)
		}
	}
	return slices.DeleteFunc(all, func(n node) bool { return n.run == nil })
}

// url returns the node's URL in the form that a replica of the service expects.
func (n node) url() string {
	if n.password == "" {
		return "redis://" + n.run.Addr + "/0"
	}
	return "redis://default:" + n.password + "@" + n.run.Addr + "/0"
}

// startRedis starts a Redis that keeps nothing on disk, unless a line of conf says otherwise. It gets the given clock;
// nil = the machine's.
func (s *Servers) startRedis(ctx context.Context, name, password string, clock *stack.Clock, conf ...string) (node,
	error) {
	path, err := stack.Find(stack.Redis)
	if err != nil {
		return node{}, err
	}
	n := node{password: password, clock: clock, dir: filepath.Join(s.Stack.Dir, strings.ReplaceAll(name, " ", "-"))}
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return node{}, err
	}
	file := filepath.Join(n.dir, "redis.conf")
	lines := append([]string{
		"bind 127.0.0.1", fmt.Sprintf("dir %q", n.dir), `save ""`, "appendonly no", "repl-diskless-sync yes",
		"repl-diskless-sync-delay 0",
		"repl-ping-replica-period 1",
	}, conf...)
	if password != "" {
		lines = append(lines, "requirepass "+password, "masterauth "+password)
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return node{}, err
	}
	n.child = stack.Child{
		Name: name,
		Argv: func(addr string) []string {
			_, port, _ := net.SplitHostPort(addr)
			return []string{path, file, "--port", port}
		},
		Ready: func(ctx context.Context, addr string) error {
			_, err := redisDo(ctx, addr, password, "PING")
			return err
		},
	}
	if clock != nil {
		n.child.Env = func(string) []string { return clock.Env() }
	}
	n.run, err = s.Stack.Spawn(ctx, n.child)
	return n, err
}

// do sends one command to the node.
func (n node) do(ctx context.Context, words ...string) (string, error) {
	return redisDo(ctx, n.run.Addr, n.password, words...)
}

// redisDo sends one command on a separate connection and returns the answer: a status, a number or a string.
func redisDo(ctx context.Context, addr, password string, words ...string) (string, error) {
	all, err := node{password: password}.ask(ctx, addr, words)
	return strings.Join(all, " "), err
}

// all sends one command and returns the values of its answer; nested arrays are flattened, nil values left out.
func (n node) all(ctx context.Context, words ...string) ([]string, error) {
	return n.ask(ctx, n.run.Addr, words)
}

func (n node) ask(ctx context.Context, addr string, words []string) ([]string, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	r := bufio.NewReader(conn)
	var commands [][]string
	if n.password != "" {
		commands = append(commands, []string{"AUTH", n.password})
	}
	commands = append(commands, words)
	var all []string
	for _, command := range commands {
		if _, err := io.WriteString(conn, respCommand(command)); err != nil {
			return nil, err
		}
		all = nil
		if err := readReply(r, &all); err != nil {
			return nil, fmt.Errorf("faultlab: redis at %s: %w", addr, err)
		}
	}
	return all, nil
}

func respCommand(words []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// redisError is an error reply; its first word is the code.
type redisError string

func (e redisError) Error() string { return string(e) }

// readReply appends the values of a reply to into; an error reply is returned as an error.
func readReply(r *bufio.Reader, into *[]string) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	kind, rest := line[0], strings.TrimRight(line[1:], "\r\n")
	if kind != '$' && kind != '*' {
		if kind == '-' {
			return redisError(rest)
		}
		*into = append(*into, rest)
		return nil
	}
	size, err := strconv.Atoi(rest)
	if err != nil || size < 0 {
		return err
	}
	if kind == '$' {
		body := make([]byte, size+2)
		_, err = io.ReadFull(r, body)
		*into = append(*into, string(body[:size]))
		return err
	}
	for range size {
		if err := readReply(r, into); err != nil {
			return err
		}
	}
	return nil
}

// passwordOf returns the password in a redis:// URL.
func passwordOf(from string) string {
	u, err := url.Parse(from)
	if err != nil {
		return ""
	}
	password, _ := u.User.Password()
	return password
}

// field returns a field of INFO.
func (n node) field(ctx context.Context, section, name string) (string, error) {
	info, err := n.do(ctx, "INFO", section)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("faultlab: INFO %s has no %s", section, name)
}

// nowhere is an address at which nobody listens.
const nowhere = "127.0.0.1:1"

// Lose makes servers unreachable for the actor, until the lane is reset.
func (a *Actor) Lose(servers ...string) {
	for _, name := range servers {
		a.proxies[name].Turn(nowhere)
		a.turned = true
	}
}

// Part cuts the actor off from servers, including all nodes of a service: the proxies silently drop everything in both
// directions. A call with on = false, or the next reset of the lane, ends the partition.
func (a *Actor) Part(on bool, servers ...string) {
	for _, name := range a.servers(servers) {
		a.proxies[name].Sever(on)
		a.parted = on
	}
}

// HoldMessage holds the next pub/sub message that the server sends to the actor.
func (a *Actor) HoldMessage(server string) *wire.Hold {
	h := a.proxies[server].Add(wire.Rule{Push: true, Match: func(c wire.Call) bool {
		return strings.Contains(c.Pattern, "MESSAGE ")
	}})
	a.holds = append(a.holds, h)
	return h
}

// join ends the partition that Part began.
func (a *Actor) join() {
	if a.parted {
		for _, p := range a.proxies {
			p.Sever(false)
		}
	}
	a.parted = false
}

// Forget replaces a server of all actors by the lane's spare, which is empty, until the lane is reset.
func (l *Lane) Forget(ctx context.Context, server string) error {
	i := slices.IndexFunc(l.links, func(x link) bool { return x.server == server })
	if i < 0 {
		return fmt.Errorf("faultlab: no server %q", server)
	}
	var err error
	if l.spare.run == nil {
		if l.spare, err = l.servers.startRedis(ctx, fmt.Sprintf("lane %d spare", l.number), passwordOf(l.links[i].url),
			nil); err != nil {
			return err
		}
	}
	if _, err := redisDo(ctx, l.spare.run.Addr, passwordOf(l.links[i].url), "FLUSHALL"); err != nil {
		return err
	}
	for _, a := range l.actors() {
		a.proxies[server].Turn(l.spare.run.Addr)
		a.turned = true
	}
	return nil
}

// turnBack makes every proxy of the actor lead to its own server again.
func (a *Actor) turnBack() {
	if !a.turned {
		return
	}
	for _, link := range a.lane.links {
		if a.lane.Pair == nil || link.server != a.lane.Pair.server {
			a.proxies[link.server].Turn(link.addr)
		}
	}
	a.turned = false
}
