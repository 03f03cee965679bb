package rig

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig/gear"
	"lastitem/judge"
	"lastitem/target"
	"lastitem/testkit"
)

// A command line is split as a shell splits it, and its placeholders are filled in after that.
func TestForeignArgv(t *testing.T) {
	t.Parallel()
	f := target.Foreign{Serve: `app --port {{port}} --dsn "{{mysql_dsn}}" 'a b' c\ d ""  {{ttl_ms}} {{redis_password}} ` +
		`{{mysql_host}}:{{mysql_port}}/{{mysql_database}} {{port3}}`}
	l := Launch{TTL: 600 * time.Millisecond, Ports: []string{"7", "8"},
		URLs: map[string]string{"SHOP_REDIS": "redis://default:pw@127.0.0.1:2/0",
			"SHOP_SQL": "me:secret word@tcp(127.0.0.1:3)/lane_0"}}
	got := Foreign(&f).Argv(l, "127.0.0.1:1")
	want := []string{"app", "--port", "1", "--dsn", "me:secret word@tcp(127.0.0.1:3)/lane_0", "a b", "c d", "", "600",
		"pw", "127.0.0.1:3/lane_0", "8"}
	testkit.Same(t, got, want, "argv")
	testkit.Is(t, f.MorePorts(), 2, "more ports")
	f.Serve = "{{postgres}} {{postgres_user}}:{{postgres_password}}@{{postgres_addr}} " +
		"{{postgres_host}}:{{postgres_port}}/{{postgres_database}} {{postgres_jdbc}}"
	l.URLs = map[string]string{gear.PostgresURL: "postgresql://me:secret@127.0.0.1:3/lane_0"}
	testkit.Same(t, Foreign(&f).Argv(l, ""), []string{l.URLs[gear.PostgresURL], "me:secret@127.0.0.1:3",
		"127.0.0.1:3/lane_0", "jdbc:postgresql://127.0.0.1:3/lane_0?sslmode=disable&user=me&password=secret"},
		"argv with PostgreSQL")
}

// A command of --setup-cmd gets the addresses of the servers themselves, and its output is shown if it fails. A replica
// gets further free ports, and the error about one that is not ready names the option.
func TestForeignStarts(t *testing.T) {
	t.Parallel()
	l := serversOnly(t)
	f := &target.Foreign{SetupCmd: []string{`sh -c 'echo "{{redis_port}} $AT"; exit 3'`},
		Env: []string{"AT={{redis_host}}"}}
	direct, err := url.Parse(l.Direct()["SHOP_REDIS"])
	testkit.Must(t, err)
	err = Foreign(f).Setup(t.Context(), Site{Set: l.Set})
	if want := direct.Port() + " 127.0.0.1"; err == nil || !strings.Contains(err.Error(), "exit status 3\n    "+want) ||
		strings.Contains(l.A.URLs()["SHOP_REDIS"], ":"+direct.Port()) {
		t.Errorf("setup: %v, want its output %q, of the server itself", err, want)
	}
	var ports []string
	l.Service = Service{
		MorePorts: 2, Waits: true, ReadyWithin: 200 * time.Millisecond,
		Argv: func(l Launch, _ string) []string {
			ports = l.Ports
			return []string{"sleep", "600"}
		},
		Env:   func(Launch, string) []string { return nil },
		Ready: func(context.Context, string) error { return errors.New("not yet") },
	}
	if err := l.A.start(t.Context()); err == nil || !strings.Contains(err.Error(), "not ready within 200ms") ||
		!strings.Contains(err.Error(), "--ready-within") || len(ports) != 2 || ports[0] == ports[1] {
		t.Errorf("start with the ports %q: %v", ports, err)
	}
}

// A repeated request was sold twice if its two answers name two orders or, without keys and names, if there are more
// orders than customers. A replay of the same order is one order.
func TestSoldTwice(t *testing.T) {
	t.Parallel()
	is := func(outcome judge.Outcome, id, key string) judge.Op {
		return judge.Op{Outcome: outcome, OrderID: id, Key: key}
	}
	ok := func(id, key string) judge.Op { return is(judge.OK, id, key) }
	for name, c := range map[string]struct {
		seen      []judge.Op
		orders    int
		two, more bool
	}{
		"sold twice":      {[]judge.Op{ok("", "1"), ok("", "1"), ok("", "2")}, 3, false, true},
		"the same order":  {[]judge.Op{ok("", "1"), ok("", "1"), ok("", "2")}, 2, false, false},
		"no answer":       {[]judge.Op{is(judge.Unknown, "", "1"), ok("", "1"), ok("", "2")}, 3, false, true},
		"nobody repeated": {[]judge.Op{ok("", "1"), ok("", "2")}, 3, false, false},
		"busy":            {[]judge.Op{is(judge.Declined, "", "1"), ok("", "1"), ok("", "2")}, 2, false, false},
		"two orders":      {[]judge.Op{ok("a", "1"), ok("c", "2"), ok("b", "1")}, 2, true, false},
		"a replay":        {[]judge.Op{ok("a", "1"), ok("a", "1"), ok("b", "2")}, 2, false, false},
		"one has no id":   {[]judge.Op{ok("", "1"), ok("b", "1")}, 1, false, false},
		"no keys":         {[]judge.Op{ok("a", ""), ok("b", "")}, 1, false, false},
		"one unknown":     {[]judge.Op{is(judge.Unknown, "a", "1"), ok("b", "1")}, 1, false, false},
	} {
		if two, more := soldTwice(c.seen), moreThanCustomers(c.seen, make([]api.Order, c.orders)); two != c.two ||
			more != c.more {
			t.Errorf("%s: two orders %t, more than customers %t, want %t, %t", name, two, more, c.two, c.more)
		}
	}
}

// A request that was turned away, or that no server owes an answer, is kept out, and nobody knows for how long.
func TestKeptOut(t *testing.T) {
	t.Parallel()
	theirs, ours := idle(t, Service{Waits: true}).B, idle(t, Service{}).B
	answered := make(chan struct{})
	close(answered)
	for name, c := range map[string]struct {
		b    *Actor
		p    *Pending
		want bool
	}{
		"turned away":  {theirs, &Pending{done: answered, op: judge.Op{Outcome: judge.Declined}}, true},
		"polls":        {theirs, &Pending{done: make(chan struct{})}, true},
		"served":       {theirs, &Pending{done: answered, op: judge.Op{Outcome: judge.OK}}, false},
		"sold out":     {theirs, &Pending{done: answered, op: judge.Op{Outcome: judge.Refused}}, false},
		"of our modes": {ours, &Pending{done: answered, op: judge.Op{Outcome: judge.Declined}}, false},
	} {
		testkit.Is(t, c.p.KeptOut(c.b), c.want, "%s: kept out", name)
	}
}
