package gear

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"

	"lastitem/stack"
	"lastitem/target"
)

// Node is one of a lane's own Redis servers.
type Node struct {
	run      *stack.Running
	password string
	child    stack.Child // how to start it again
	dir      string      // the directory of its data, if it keeps any
	starts   int
	young    bool         // started recently: its restart guard may still be on
	clock    *stack.Clock // nil = the machine's
}

// url returns the node's URL in the form that a replica of the service expects.
func (n Node) url() string {
	if n.password == "" {
		return "redis://" + n.run.Addr + "/0"
	}
	return "redis://default:" + n.password + "@" + n.run.Addr + "/0"
}

// startRedis starts a Redis that keeps nothing on disk, unless a line of conf says otherwise. It gets the given clock;
// nil = the machine's.
func (p *Place) startRedis(ctx context.Context, name, password string, clock *stack.Clock, conf ...string) (Node,
	error) {
	path, err := stack.Find(stack.Redis)
	if err != nil {
		return Node{}, err
	}
	n := Node{password: password, clock: clock, dir: filepath.Join(p.Stack.Dir, strings.ReplaceAll(name, " ", "-"))}
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return Node{}, err
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
		return Node{}, err
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
	n.run, err = p.Stack.Spawn(ctx, n.child)
	return n, err
}

// replaceRedis starts a Redis for the lane alone in place of a shared one. open leaves it without a
// password. It does nothing if the service does not use that server.
func (p *Place) replaceRedis(ctx context.Context, server string, open bool, conf ...string) (Node, error) {
	link := p.linkTo(server)
	if link == nil {
		return Node{}, nil
	}
	password := passwordOf(link.url)
	if open {
		password = ""
	}
	n, err := p.startRedis(ctx, fmt.Sprintf("lane %d %s", p.Number, server), password, nil, conf...)
	if err != nil {
		return Node{}, err
	}
	link.addr, link.url = n.run.Addr, n.url()
	return n, nil
}

// Do sends one command to the node.
func (n Node) Do(ctx context.Context, words ...string) (string, error) {
	return redisDo(ctx, n.run.Addr, n.password, words...)
}

// redisDo sends one command on a separate connection and returns the answer: a status, a number or a string.
func redisDo(ctx context.Context, addr, password string, words ...string) (string, error) {
	all, err := redisAll(ctx, addr, password, words)
	return strings.Join(all, " "), err
}

// All sends one command and returns the values of its answer; nested arrays are flattened, nil values left out.
func (n Node) All(ctx context.Context, words ...string) ([]string, error) {
	return redisAll(ctx, n.run.Addr, n.password, words)
}

func redisAll(ctx context.Context, addr, password string, words []string) ([]string, error) {
	client, err := dial(ctx, addr, password)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	all, err := target.Commands(client)(ctx, words...)
	if err != nil {
		return nil, fmt.Errorf("faultlab: redis at %s: %w", addr, err)
	}
	return all, nil
}

// dial returns a client of one connection, which tries everything once and has no time-out of its own. It dials by
// itself: go-redis would log each failure, and a server that starts refuses some connections.
func dial(ctx context.Context, addr, password string) (*redis.Client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(&redis.Options{
		Addr: addr, Password: password, Protocol: 2, DisableIdentity: true, MaxRetries: -1, ReadTimeout: -1,
		ContextTimeoutEnabled: true,
		Dialer:                func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}), nil
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
func (n Node) field(ctx context.Context, section, name string) (string, error) {
	info, err := n.Do(ctx, "INFO", section)
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

// log returns the path of a node's append-only file.
func (n Node) log() (string, error) {
	files, err := filepath.Glob(filepath.Join(n.dir, "appendonlydir", "*.incr.aof"))
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("faultlab: %d append-only files of %s, want one", len(files), n.child.Name)
	}
	if err != nil {
		return "", err
	}
	return files[0], nil
}

// ended says whether the node's process is gone.
func (n Node) ended() bool {
	select {
	case <-n.run.Exited():
		return true
	default:
		return false
	}
}
