package handoff_test

import (
	"embed"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock/handoff"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// The scripts of the first version, whose tokens named no version, as two commits had them. The second notes the grants.
//
//go:embed testdata/v1
var v1Scripts embed.FS

// v1 is a process of the first version.
type v1 struct {
	t       *testing.T
	c       *redis.Client
	commit  string
	process string
}

// besideVersionOne runs f with a process of each commit of the first version, on each server, under a key of its own.
func besideVersionOne(t *testing.T, f func(t *testing.T, s *testenv.RedisServer, old v1, key string)) {
	for _, commit := range []string{"5e4522f", "d127aa7"} {
		t.Run(commit, func(t *testing.T) {
			onServers(t, func(t *testing.T, s *testenv.RedisServer) {
				f(t, s, v1{t, s.Client, commit, "ABCDEFGHIJKLMNOP"}, s.Prefix+"{1}")
			})
		})
	}
}

func (p v1) token(n int) string  { return fmt.Sprintf("%s.%d.1.2500", p.process, n) }
func (p v1) reader(n int) string { return fmt.Sprintf("%s.%d.0.2500", p.process, n) }
func (p v1) writer(n int) string { return fmt.Sprintf("%s.%d.2.2500", p.process, n) }

// source is the text of a script with the parts that it includes.
func (p v1) source(script string) string {
	p.t.Helper()
	read := func(name string) string {
		text, err := v1Scripts.ReadFile("testdata/v1/" + p.commit + "/" + name + ".lua")
		if err != nil {
			p.t.Fatal(err)
		}
		return string(text)
	}
	text := read(script)
	for _, part := range []string{"rw_admit", "pass", "fence"} {
		text = strings.Replace(text, "-- include "+part+".lua\n", read(part), 1)
	}
	return text
}

// run runs a script with the TTL and the command to publish that the process has; args follow.
func (p v1) run(script, key, token string, args ...any) any {
	p.t.Helper()
	k := handoff.KeysOf(key)
	keys := []string{k.Lock, k.Queue, k.Fence, k.LastReleaser, strings.TrimSuffix(k.Queue, "queue") + "ended:" + token}
	if strings.HasPrefix(script, "rw_") {
		keys = append(keys, k.Readers)
	}
	const fenceTTL = 3600000 // ms; the earlier commit has none, and does not look at it
	reply, err := p.c.Eval(p.t.Context(), p.source(script), keys, append(append([]any{token, 30000, "PUBLISH"}, args...), fenceTTL)...).Result()
	if err != nil {
		p.t.Fatalf("version 1, %s: %v", script, err)
	}
	return reply
}

// result is the first number that a script returns, and the second, 0 if there is none.
func result(reply any) (first, second int64) {
	all, _ := reply.([]any)
	if len(all) < 2 {
		first, _ = reply.(int64)
		return first, 0
	}
	first, _ = all[0].(int64)
	second, _ = all[1].(int64)
	return first, second
}

// acquire returns the fence, or 0 if the lock is not the token's. queue is 1 if it may wait.
func (p v1) acquire(key string, n, queue int) uint64 {
	p.t.Helper()
	reply := p.run("acquire", key, p.token(n), queue, 1)
	if fence, free := reply.(int64); free {
		return uint64(fence)
	}
	if owns, fence := result(reply); owns == 1 {
		return uint64(fence)
	}
	return 0
}

func (p v1) release(key string, n int) bool {
	p.t.Helper()
	owned, _ := result(p.run("release", key, p.token(n), ""))
	return owned == 1
}

// poll returns the fence, or 0 if the lock is not the token's.
func (p v1) poll(key string, n int) uint64 {
	p.t.Helper()
	reply, _ := p.run("poll", key, p.token(n)).([]any)
	if reply[0] != p.token(n) {
		return 0
	}
	_, fence := result(reply)
	return uint64(fence)
}

// read says whether the reader is in, which does not wait.
func (p v1) read(key string, n int) bool {
	p.t.Helper()
	in, _ := result(p.run("rw_read", key, p.reader(n), 0))
	return in > 0 // the fence alone if nobody waited
}

// leave says whether the reader was in.
func (p v1) leave(key string, n int) bool {
	p.t.Helper()
	was, _ := result(p.run("rw_leave", key, p.reader(n), ""))
	return was == 1
}

// write returns 2 if the writer is in, 1 if it has the lock and readers are in, 0 if it waits.
func (p v1) write(key string, n int) int64 {
	p.t.Helper()
	state, _ := result(p.run("rw_write", key, p.writer(n), 1, 2))
	return state
}

func (p v1) releaseWrite(key string, n int) bool {
	p.t.Helper()
	owned, _ := result(p.run("rw_release", key, p.writer(n)))
	return owned == 1
}

// subscribe listens like the process until the test stops it. The messages that arrive are in heard.
func (p v1) subscribe() (heard <-chan *redis.Message, stop func()) {
	p.t.Helper()
	channel := "lock:engine:" + p.process
	ps := p.c.Subscribe(p.t.Context(), channel)
	if _, err := ps.Receive(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = ps.Close() })
	return ps.Channel(), func() {
		_ = ps.Close()
		wait.Until(p.t, "no subscription", func() bool { return p.c.PubSubNumSub(p.t.Context(), channel).Val()[channel] == 0 })
	}
}
