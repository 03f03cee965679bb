//go:build linux

package chaos_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
)

// world has the processes and servers of a run.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	servers []*server // one, with a replica for failovers, or a cluster
	replica *server
	relays  []*locktest.Relay // one for each worker; none in a cluster, whose nodes the clients find themselves
	workers []*worker
	losses  []loss
	story   []string // the faults so far, with their times
}

// fault injects a fault, and undoes it if it does not pass by itself.
type fault func(w *world)

// everywhere has the faults for every deployment.
var everywhere = map[string]fault{
	"stop a worker":       func(w *world) { w.anyWorker().freeze(w.upTo(2 * ttl)) },
	"kill a worker":       func(w *world) { x := w.anyWorker(); x.kill(); x.start() },
	"CLIENT KILL":         func(w *world) { w.anyServer().do("CLIENT", "KILL", "TYPE", "normal") },
	"CLIENT KILL pubsub":  func(w *world) { w.anyServer().do("CLIENT", "KILL", "TYPE", "pubsub") },
	"stop a server":       func(w *world) { w.anyServer().freeze(w.upTo(ttl)) },
	"stop a server long":  func(w *world) { w.anyServer().freeze(ttl + w.upTo(2*ttl)) },
	"FLUSHALL":            func(w *world) { s := w.anyServer(); w.losing(false, func() { s.do("FLUSHALL") }, func() {}) },
	"forget the scripts":  func(w *world) { w.anyServer().do("SCRIPT", "FLUSH") },
	"nothing for a while": func(w *world) { time.Sleep(w.upTo(ttl)) },
}

// alone has the faults for a single server behind relays.
var alone = map[string]fault{
	"cut": func(w *world) {
		r := w.anyRelay()
		r.Shut.Store(true)
		r.CloseAll()
		time.Sleep(w.upTo(ttl))
		heal(r)
	},
	"hang": func(w *world) {
		r := w.anyRelay()
		r.Hangs.Store(true)
		time.Sleep(w.upTo(2 * ttl))
		heal(r)
	},
	"delay": func(w *world) {
		r := w.anyRelay()
		r.Delay.Store(int64(w.upTo(ttl / 10)))
		time.Sleep(w.upTo(ttl))
		heal(r)
	},
	"empty restart": func(w *world) {
		w.losing(false, w.servers[0].kill, w.servers[0].start)
	},
	"failover": (*world).failover,
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }
func (w *world) anyWorker() *worker                 { return w.workers[w.rng.IntN(len(w.workers))] }
func (w *world) anyServer() *server                 { return w.servers[w.rng.IntN(len(w.servers))] }
func (w *world) anyRelay() *locktest.Relay          { return w.relays[w.rng.IntN(len(w.relays))] }

// heal ends the faults of the network. Its connections go on.
func heal(r *locktest.Relay) {
	r.Shut.Store(false)
	r.Hangs.Store(false)
	r.Delay.Store(0)
}

// losing notes a loss of the locks, and then makes the servers usable again.
func (w *world) losing(failover bool, lose, restore func()) {
	clock := func() uint64 { return uint64(time.Now().UnixMicro()) }
	l := loss{from: monotonic(), after: clock()}
	lose()
	l.before = clock()
	if failover {
		l.after, l.before = 0, 0
	}
	restore()
	l.to = monotonic()
	w.losses = append(w.losses, l)
}

// failover kills the master and promotes the replica, to which all clients then connect. The old master becomes the
// replica, empty at first.
func (w *world) failover() {
	old := w.servers[0]
	w.replica.follow(old) // it may have been empty since a restart
	w.losing(true, func() {
		old.kill()
		w.replica.do("REPLICAOF", "NO", "ONE")
		for _, r := range w.relays {
			r.Turn(w.replica.addr)
		}
	}, func() {})
	w.servers[0], w.replica = w.replica, old
	old.start()
	old.follow(w.servers[0])
}

// newWorld starts servers and workers; nodes is 1 or 3.
func newWorld(t *testing.T, nodes int, seed uint64, log string) *world {
	t.Helper()
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1))}
	var addrs []string
	if nodes == 1 {
		w.servers, w.replica = []*server{newServer(t)}, newServer(t)
		w.replica.follow(w.servers[0])
	} else {
		w.servers = newCluster(t)
		for _, s := range w.servers {
			addrs = append(addrs, s.addr)
		}
	}
	handoffs, fairs := keys("h"), keys("f")
	for i := range 4 {
		j := job{Addrs: addrs, Worker: i, Seed: seed, Log: log, Handoffs: handoffs, Fairs: fairs}
		if nodes == 1 {
			w.relays = append(w.relays, locktest.NewRelay(t, w.servers[0].addr))
			j.Addrs = []string{w.relays[i].Addr().String()}
		}
		w.workers = append(w.workers, &worker{t: t, job: j})
		t.Cleanup(w.workers[i].kill)
		w.workers[i].start()
	}
	return w
}

// keys returns a key in each third of a cluster's slots.
func keys(kind string) []string { return []string{kind + "{a}", kind + "{b}", kind + "{c}"} }

// settle ends all faults, and then a client without faults takes each lock: no lock may be left behind for good.
func (w *world) settle() {
	w.t.Helper()
	for _, r := range w.relays {
		heal(r)
	}
	addrs := []string{w.servers[0].addr}
	if len(w.servers) > 1 {
		addrs = w.workers[0].job.Addrs
	}
	c := client(addrs, patience)
	defer func() { _ = c.Close() }()
	engine, err := handoff.New(c, handoff.Options{TTL: patience, AttemptLimit: patience, CallTimeout: patience})
	testkit.Must(w.t, err)
	defer func() { _ = engine.Close(w.t.Context()) }()
	for _, kind := range []struct {
		l    lock.Locker
		keys []string
	}{{engine.Handoff(), keys("h")}, {engine.Fair(), keys("f")}} {
		for _, key := range kind.keys {
			lease, err := kind.l.Acquire(lock.WithWait(w.t.Context(), patience), key)
			if err != nil {
				w.t.Errorf("%s after all faults: %v", key, err)
				continue
			}
			testkit.Is(w.t, lease.Release(w.t.Context()), nil, "%s: Release", key)
		}
	}
}

// run plays faults for a time, but at least three kinds, and judges the holds.
func run(t *testing.T, nodes int, seed uint64, length time.Duration) verdict {
	t.Helper()
	log := filepath.Join(t.TempDir(), "holds")
	w := newWorld(t, nodes, seed, log)
	faults := maps.Clone(everywhere)
	if nodes == 1 {
		maps.Copy(faults, alone)
	}
	names := slices.Sorted(maps.Keys(faults))
	played := map[string]int{}
	for end := time.Now().Add(length); time.Now().Before(end) || len(played) < 3; {
		name := names[w.rng.IntN(len(names))]
		played[name]++
		began := monotonic()
		faults[name](w)
		w.story = append(w.story, fmt.Sprintf("%d to %d: %s", began, monotonic(), name))
		time.Sleep(w.upTo(ttl / 2))
	}
	w.settle()
	for _, x := range w.workers {
		x.kill()
	}
	v := judge(readHolds(t, log), w.losses)
	for _, wrong := range v.Wrong[:min(len(v.Wrong), 5)] {
		t.Error(wrong)
	}
	if t.Failed() {
		t.Logf("what was done:\n%s\nwhen the locks were lost: %+v", strings.Join(w.story, "\n"), w.losses)
	}
	if v.Holds == 0 {
		t.Error("nobody ever had a lock")
	}
	fmt.Printf("chaos: seed %d, %d node(s): %d holds, %d wrong; %d overlaps after a loss, the longest %v; %v\n",
		seed, nodes, v.Holds, len(v.Wrong), v.Overlaps, v.Longest.Round(time.Millisecond),
		strings.Trim(fmt.Sprint(played), "map[]"))
	return v
}

// TestChaos: four processes contend for six locks while processes and servers stop and die, connections break and hang,
// and Redis loses its data; on one Redis with a replica, and on a cluster of three masters. Two holders may have a lock
// at the same time only after a loss of data, and then for at most a TTL. LOCK_CHAOS sets how long the test runs ('make
// soak'), LOCK_TEST_SEED the first seed.
func TestChaos(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("LOCK_CHAOS"))
	if err != nil {
		length = 0
	}
	const round = 20 * time.Second
	seed, err := strconv.ParseUint(os.Getenv("LOCK_TEST_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64() >> 32
	}
	for end := time.Now().Add(length); ; seed++ {
		for _, nodes := range []int{1, 3} {
			t.Run(fmt.Sprintf("%d on %d", seed, nodes), func(t *testing.T) { run(t, nodes, seed, min(length, round)) })
		}
		if t.Failed() || !time.Now().Before(end) {
			return
		}
	}
}
