package gear

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/stack"
	"lastitem/stack/wire/codec"
	"lastitem/target"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// A restarted server is empty and has its old address. Clients see at once that their connections have ended, and other
// servers keep theirs.
func TestOwnServerRestartsEmpty(t *testing.T) {
	t.Parallel()
	s := newSet(t, Equipment{})
	if got, want := s.Own.Names(), []string{stack.Redis, redlockNode}; !slices.Equal(got, want) {
		t.Fatalf("Names() = %q, want %q", got, want)
	}
	before := s.Own.servers[stack.Redis].run.Addr
	cut := testkit.Dial(t, s.wires[0].proxies[stack.Redis].Addr)
	if _, err := io.WriteString(cut, "*1\r\n$4\r\nPING\r\n"); err != nil { // which Redis refuses, without a password
		t.Fatal(err)
	}
	answers := bufio.NewReader(cut)
	_, err := answers.ReadString('\n')
	testkit.Must(t, err)
	kept := through(t, s.wires[0], redlockNode)
	through(t, s.wires[0], stack.Redis).do("SET", "k", "v")
	kept.do("SET", "k", "v")
	s.Warm = "any"
	testkit.Must(t, s.Own.Restart(t.Context(), stack.Redis))
	if after := s.Own.servers[stack.Redis].run.Addr; after != before || s.Warm != "" {
		t.Errorf("restarted at %s, warm %q, want at %s and no longer warm", after, s.Warm, before)
	}
	testkit.Must(t, cut.SetReadDeadline(time.Now().Add(generous)))
	if answer, err := answers.ReadString('\n'); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the old connection answers %q, %v, want its end", answer, err)
	}
	testkit.Is(t, through(t, s.wires[0], stack.Redis).do("EXISTS", "k"), "0", "EXISTS on the restarted server")
	testkit.Is(t, kept.do("EXISTS", "k"), "1", "EXISTS on the other server")
}

// A frozen server answers nothing until it goes on; a killed one is started again between schedules.
func TestOwnServersAreRestored(t *testing.T) {
	t.Parallel()
	s := newSet(t, Equipment{})
	frozen := through(t, s.wires[1], stack.Redis)
	testkit.Must(t, s.Own.Freeze(stack.Redis))
	frozen.wantSilence("a frozen server", "PING")
	testkit.Must(t, s.Own.Thaw(stack.Redis))
	testkit.Is(t, through(t, s.wires[1], stack.Redis).do("PING"), "PONG", "PING after Thaw")
	testkit.Must(t, s.Own.Freeze(stack.Redis))
	s.Own.servers[redlockNode].run.Kill()
	testkit.Must(t, s.Own.restore(t.Context()))
	for _, server := range s.Own.Names() {
		testkit.Is(t, tell(t, s, server, "PING"), "PONG", "%s after restore", server)
	}
}

// A server that does not start again fails its schedule only; it is started before the next one.
func TestOwnServerDoesNotRestart(t *testing.T) {
	t.Parallel()
	s := newSet(t, Equipment{})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Own.Restart(gone, stack.Redis); err == nil {
		t.Fatal("Restart after the end of its context = nil, want an error")
	}
	testkit.Must(t, s.Own.restore(t.Context()))
	if got := through(t, s.wires[0], stack.Redis).do("EXISTS", "k"); got != "0" {
		t.Errorf("EXISTS after restore = %s, want an answer", got)
	}
}

// A node is past its restart guard once per start.
func TestOutOfGuard(t *testing.T) {
	t.Parallel()
	s := newSet(t, Equipment{})
	n := s.Own.servers[redlockNode]
	for _, step := range []func() error{
		func() error { return nil }, // it has just been started
		func() error { return s.Own.Restart(t.Context(), redlockNode) },
	} {
		testkit.Must(t, step())
		if !n.young {
			t.Error("a node that has started is not young")
		}
		if err := s.Own.OutOfGuard(t.Context(), redlockNode); err != nil || n.young {
			t.Errorf("OutOfGuard = %v, young %t, want neither", err, n.young)
		}
	}
}

// A lane that is closed leaves none of its servers behind, stopped ones included: a run has many lanes, and closes each
// when it is done with it.
func TestCloseEndsServers(t *testing.T) {
	t.Parallel()
	s := newSet(t, Equipment{})
	var err error
	s.Pair, err = newPair(t.Context(), s.Place, Equipment{Pair: stack.Redis}, false)
	testkit.Must(t, errors.Join(err, s.Forget(t.Context(), redlockNode), s.Own.Freeze(redlockNode)))
	all := s.nodes()
	if len(all) != 4 {
		t.Errorf("%d servers, want two of the lane, a spare and a master", len(all))
	}
	s.Close()
	for _, n := range all {
		if !n.ended() {
			t.Errorf("%s is alive after Close", n.child.Name)
		}
	}
}

// A lane refuses to kill, stop or empty a shared server.
func TestOwnServersOnly(t *testing.T) {
	t.Parallel()
	s := newSet(t, Equipment{})
	const other = "redlock 1"
	_, told := s.Own.Tell(t.Context(), other, "PING")
	_, logged := s.Own.Logged(t.Context(), other)
	for what, err := range map[string]error{
		"Tell": told, "Logged": logged, "Restart": s.Own.Restart(t.Context(), other), "Freeze": s.Own.Freeze(other),
		"Thaw":       s.Own.Thaw(other),
		"OutOfGuard": s.Own.OutOfGuard(t.Context(), other), "RestartFrom": s.Own.RestartFrom(t.Context(), other, 0),
		"Jump": s.Clocks.Jump(t.Context(), generous, other), "Jump without a clock": s.Clocks.Jump(t.Context(), generous,
			redlockNode),
	} {
		if err == nil {
			t.Errorf("%s = nil, want an error", what)
		}
	}
}

// A replica that is cut off from a service reaches none of its nodes, and nothing that it sends is delivered later.
// Other services, and other replicas, are not cut off.
func TestPart(t *testing.T) {
	t.Parallel()
	s := newSet(t, Equipment{})
	cut, other := through(t, s.wires[0], redlockNode), through(t, s.wires[0], stack.Redis)
	rival := through(t, s.wires[1], redlockNode)
	s.wires[0].Part(true, stack.Redlock)
	cut.wantSilence("a command over the cut", "SET", "k", "v")
	for what, c := range map[string]*client{"another service": other, "another replica": rival} {
		testkit.Is(t, c.do("EXISTS", "k"), "0", "%s: EXISTS", what)
	}
	s.wires[0].Part(false, stack.Redlock)
	if got := through(t, s.wires[0], redlockNode).do("EXISTS", "k"); got != "0" {
		t.Errorf("EXISTS after the cut = %q, want 0: the command is lost", got)
	}
	s.wires[0].Part(true, stack.Redis)
	testkit.Must(t, s.Restore(t.Context()))
	if s.wires[0].parted {
		t.Error("Restore has left the replica cut off")
	}
	testkit.Is(t, through(t, s.wires[0], stack.Redis).do("PING"), "PONG", "PING after Restore")
}

// HoldMessage holds one message to one subscriber. Messages to other subscribers, and the answers to commands, pass.
func TestHoldMessage(t *testing.T) {
	t.Parallel()
	s := newSet(t, Equipment{})
	news := func(w *Wires) *redis.PubSub {
		sub := through(t, w, stack.Redis).Subscribe(t.Context(), "news")
		t.Cleanup(func() { _ = sub.Close() })
		_, err := sub.Receive(t.Context())
		testkit.Must(t, err)
		return sub
	}
	read := func(sub *redis.PubSub, within time.Duration) string {
		said, err := sub.ReceiveTimeout(t.Context(), within)
		return fmt.Sprint(said, err)
	}
	const one, two = "Message<news: one> <nil>", "Message<news: two> <nil>"
	a, b := news(s.wires[0]), news(s.wires[1])
	h, err := s.wires[0].HoldMessage(stack.Redis)
	testkit.Must(t, err)
	tell(t, s, stack.Redis, "PUBLISH", "news", "one")
	select {
	case <-h.Reached():
	case <-time.After(generous):
		t.Fatal("the message was not held")
	}
	testkit.Is(t, read(b, generous), one, "B reads")
	if got := read(a, moment); got == one {
		t.Error("A reads a message that is held")
	}
	h.Pass()
	testkit.Is(t, read(a, generous), one, "A reads, when the message has passed,")
	tell(t, s, stack.Redis, "PUBLISH", "news", "two")
	testkit.Is(t, read(a, generous), two, "A reads")
}

// Cutting the append-only file back to an earlier length loses the writes since then, and no earlier ones.
func TestRestartFrom(t *testing.T) {
	t.Parallel()
	s := newSet(t, Equipment{Conf: "appendonly yes;appendfsync everysec"})
	length := func() int64 {
		t.Helper()
		n, err := s.Own.Logged(t.Context(), stack.Redis)
		testkit.Must(t, err)
		return n
	}
	empty := length()
	tell(t, s, stack.Redis, "SET", "kept", "v")
	synced := length()
	tell(t, s, stack.Redis, "SET", "lost", "v")
	if all := length(); empty >= synced || synced >= all {
		t.Errorf("Logged = %d, %d, %d after 0, 1 and 2 commands, want more each time", empty, synced, all)
	}
	testkit.Must(t, s.Own.RestartFrom(t.Context(), stack.Redis, synced))
	if got := tell(t, s, stack.Redis, "KEYS", "*"); got != "kept" {
		t.Errorf("KEYS = %q after the last command was cut off, want \"kept\"", got)
	}
}

// To the servers of a lane the TTL has passed: a lock is gone, a key with a longer life lives a TTL less, and a key
// without a TTL stays. The keys of other lanes, which may be on the same server, are unchanged.
func TestExpire(t *testing.T) {
	t.Parallel()
	s := newSet(t, Equipment{})
	s.Number, s.TTL = 3, 10*time.Minute
	s.links[0].env, s.links[1].env = "SHOP_REDIS", "SHOP_REDLOCK"
	const lock, fence, forever, others = "lane3:lock:m:{1}", "lane3:lock:m:{1}:fence", "lane3:lock:setnx:{1}",
		"lane13:lock:m:{1}"
	for _, server := range s.Own.Names() {
		tell(t, s, server, "SET", lock, "a", "PX", "600000")
		tell(t, s, server, "SET", fence, "7", "PX", "1200000")
		tell(t, s, server, "SET", forever, "a")
		tell(t, s, server, "SET", others, "a", "PX", "600000")
	}
	n, err := s.Expire(t.Context(), s.wires[0], stack.Etcd) // the lane has no etcd, and so no session to end
	if err != nil || n != 4 {
		t.Errorf("Expire = %d, %v, want 4", n, err)
	}
	for _, server := range s.Own.Names() {
		for key, want := range map[string][2]int{lock: {-2, -2}, fence: {300_000, 600_000}, forever: {-1, -1},
			others: {300_000, 600_000}} {
			if left := pttl(t, s, server, key); left < want[0] || left > want[1] {
				t.Errorf("%s: PTTL %s = %d, want %d to %d", server, key, left, want[0], want[1])
			}
		}
	}
	s.alone = true // no other lane is on its Redis
	if n, err := s.Expire(t.Context(), s.wires[0]); err != nil || n != 4 {
		t.Errorf("Expire on servers of its own = %d, %v, want 4: the fence and the other key on both", n, err)
	}
}

// A clock that jumps forward ends the lock at once and stays where it is; one that jumps back lengthens the lock's life
// until the next reset. No other server's clock moves.
func TestJump(t *testing.T) {
	t.Parallel()
	testenv.Installed(t, stack.Compiler)
	s := newSet(t, Equipment{Clock: true})
	lock := func() {
		for _, server := range s.Own.Names() {
			tell(t, s, server, "SET", "lock", "a", "NX", "PX", "60000")
		}
	}
	left := func(server string) int { return pttl(t, s, server, "lock") }
	jump := func(by time.Duration) {
		t.Helper()
		testkit.Must(t, s.Clocks.Jump(t.Context(), by, stack.Redis))
	}
	lock()
	jump(time.Hour)
	if here, there := left(stack.Redis), left(redlockNode); here != -2 || there < 0 {
		t.Errorf("PTTL after a jump forward = %d, on another server %d, want no lock (-2), and one there", here, there)
	}
	lock()
	jump(-time.Hour)
	if here, there := left(stack.Redis), left(redlockNode); here <= 3600000 || there > 60000 {
		t.Errorf("PTTL after a jump back = %d, on another server %d, want more than an hour, and at most a minute there",
			here, there)
	}
	for range 2 { // the second time there is nothing to restore
		testkit.Must(t, s.Clocks.restore())
		if offset := s.Own.servers[stack.Redis].clock.Offset(); offset != time.Hour {
			t.Errorf("after restore the clock is %v ahead, want 1h", offset)
		}
	}
	if here := left(stack.Redis); here > 60000 {
		t.Errorf("PTTL after restore = %d, want at most a minute", here)
	}
}

// redlockNode is the second server of a set in a test.
const redlockNode = "redlock 3"

// newSet returns a set with the wires of two replicas: Redis and redlockNode are its own.
func newSet(t *testing.T, e Equipment) *Set {
	t.Helper()
	testenv.Installed(t, stack.Redis)
	running, err := stack.Start(t.Context(), stack.Options{Only: []string{}})
	testkit.Must(t, err)
	servers := &Servers{Stack: running}
	testkit.Closes(t, servers)
	for _, name := range []string{stack.Redis, redlockNode} {
		servers.links = append(servers.links, link{server: name, codec: codec.Redis,
			url: "redis://default:secret@127.0.0.1:1/0", addr: "127.0.0.1:1"})
	}
	e.Own = stack.Redis + "," + redlockNode
	s, err := servers.NewSet(t.Context(), SetOptions{TTL: time.Second, Equipment: e})
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	for _, replica := range []string{"A", "B"} {
		w, err := s.NewWires(replica)
		testkit.Must(t, err)
		t.Cleanup(w.Close)
	}
	return s
}

// tell sends a command to one of the lane's own servers, bypassing the proxies.
func tell(t *testing.T, s *Set, server string, words ...string) string {
	t.Helper()
	answer, err := s.Own.Tell(t.Context(), server, words...)
	testkit.Mustf(t, err, "%q", words)
	return answer
}

// pttl returns how many milliseconds a key has left; -1 = it has no TTL, -2 = there is no such key.
func pttl(t *testing.T, s *Set, server, key string) int {
	t.Helper()
	ms, err := strconv.Atoi(tell(t, s, server, "PTTL", key))
	testkit.Must(t, err)
	return ms
}

// generous is how long a test waits for something that must happen; moment is how long it watches for something that
// must not.
const (
	generous = 30 * time.Second
	moment   = 200 * time.Millisecond
)

// client reaches a server through a replica's proxy.
type client struct {
	t *testing.T
	*redis.Client
}

// through returns a client with an open connection.
func through(t *testing.T, w *Wires, server string) *client {
	t.Helper()
	opened, err := dial(t.Context(), w.proxies[server].Addr, "secret")
	testkit.Must(t, err)
	c := &client{t, opened}
	testkit.Closes(t, c)
	c.do("PING")
	return c
}

func (c *client) do(words ...string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), generous)
	defer cancel()
	all, err := target.Commands(c.Client)(ctx, words...)
	testkit.Mustf(c.t, err, "%q", words)
	return strings.Join(all, " ")
}

// wantSilence fails the test if a command is answered.
func (c *client) wantSilence(what string, words ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), moment)
	defer cancel()
	if answer, err := target.Commands(c.Client)(ctx, words...); !errors.Is(err, os.ErrDeadlineExceeded) &&
		!errors.Is(err, context.DeadlineExceeded) {
		c.t.Errorf("%s: got %q, %v, want no answer", what, answer, err)
	}
}

// Lanes whose products have names of another shape have the same positions.
func TestNamedProducts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"7f3e", "SKU-1", "red shoes"} {
		said := fmt.Sprintf("*2\r\n$3\r\nGET\r\n$%d\r\nstock:%s\r\n", len("stock:")+len(name), name)
		m, err := named(codec.Redis, name).Begin().Command([]byte(said))
		testkit.Must(t, err)
		testkit.Is(t, m.Command.Pattern, "GET stock:{product}", "%s", name)
	}
}
