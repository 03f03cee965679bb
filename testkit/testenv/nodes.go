package testenv

import (
	"sync"
	"testing"

	"lastitem/stack"
	"lastitem/stack/engine"
	"lastitem/testkit"
)

// RedisNode is a real Redis server of the test's own, one of several that know nothing of each other, and that the test
// may kill and start again. It keeps nothing on disk, unless its configuration says so: a new start is an empty server.
type RedisNode struct {
	// URL is for clients that the test makes itself. It changes with Start.
	URL string

	t       testing.TB
	options stack.Options
	stack   *stack.Stack
}

// RedisNodes starts n servers, which end with the test; conf are lines for the end of their redis.conf. They are never
// the one of SHOP_TEST_REDIS, which others use too.
func RedisNodes(t testing.TB, n int, conf ...string) []*RedisNode {
	t.Helper()
	return redisNodes(t, n, stack.Options{RedisConf: conf})
}

// RedisSentinel starts a sentinel that watches what conf says: lines "sentinel ...".
func RedisSentinel(t testing.TB, conf ...string) *RedisNode {
	t.Helper()
	return redisNodes(t, 1, stack.Options{RedisConf: conf, RedisArgs: []string{"--sentinel"}})[0]
}

func redisNodes(t testing.TB, n int, o stack.Options) []*RedisNode {
	t.Helper()
	Installed(t, stack.Redis)
	nodes := make([]*RedisNode, n)
	for i := range nodes {
		nodes[i] = &RedisNode{t: t, options: o}
		t.Cleanup(nodes[i].Kill)
	}
	failed := make(chan error, n)
	for _, node := range nodes {
		go func() { failed <- node.start() }()
	}
	for range nodes {
		if err := <-failed; err != nil {
			t.Errorf("testenv: %v", err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return nodes
}

func (n *RedisNode) start() (err error) {
	if n.stack, err = start([]string{stack.Redis}, n.options); err == nil {
		n.URL = n.stack.Redis.URL
	}
	return err
}

// Start starts the server again after a Kill, at another address, with another password, and as a rule empty.
func (n *RedisNode) Start() {
	n.t.Helper()
	if err := n.start(); err != nil {
		n.t.Fatalf("testenv: %v", err)
	}
}

// PID is the server's process.
func (n *RedisNode) PID() int { return n.stack.Redis.PID }

// Kill ends the server, and all that it knew. It may be repeated.
func (n *RedisNode) Kill() {
	n.t.Helper()
	if n.stack == nil {
		return
	}
	if err := n.stack.Close(); err != nil {
		n.t.Errorf("testenv: %v", err)
	}
	n.stack = nil
}

// MySQLNodes starts n MySQL or MariaDB servers of the test's own, which end with it, and returns the DSNs of an account
// that may do anything there; conf are options for the end of their command lines. They are never the one of
// SHOP_TEST_SQL.
func MySQLNodes(t testing.TB, n int, conf ...string) []string {
	t.Helper()
	Installed(t, stack.MySQL)
	stacks, errs := make([]*stack.Stack, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { stacks[i], errs[i] = start([]string{stack.MySQL}, stack.Options{SQLConf: conf}) })
	}
	wg.Wait()
	var all []string
	for i, s := range stacks {
		if errs[i] != nil {
			t.Errorf("testenv: %v", errs[i])
			continue
		}
		all = append(all, s.SQL.URL)
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("testenv: %v", err)
			}
		})
	}
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// Galera starts two joined nodes of Galera, both of which may be written, and returns their DSNs. They answer 1047
// until they are ready.
func Galera(t testing.TB) []string {
	t.Helper()
	testkit.NotQuick(t, engine.Galera)
	if err := engine.Installed(engine.Galera); err != nil {
		testkit.Missing(t, engine.Galera, err)
	}
	_, dsns, _, err := engine.GaleraNodes(t.Context(), Own(t, []string{}...))
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return dsns
}

// MySQLOn is [Own] for a MySQL or MariaDB on a data directory, which is filled where it is empty, and kept; conf are
// options for the end of its command line.
func MySQLOn(t testing.TB, data string, conf ...string) *stack.Stack {
	t.Helper()
	return OwnWith(t, stack.Options{SQLData: data, SQLConf: conf}, stack.MySQL)
}
