package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"lastitem/internal/cli"
	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// An operator sees who holds a lock, and takes it from the holder: the next waiter gets it, with a higher fence than
// the one that the command prints.
func TestLock(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t)
	key := r.Prefix + "lock:{1}"
	run := func(want int, args ...string) string {
		t.Helper()
		args = append([]string{"lock"}, append(args, "--redis", r.URL)...)
		code, out, errOut := commandLine(t.Context(), newRoot(cli.Language(args, func(string) string { return "" })), args...)
		if code != want {
			t.Fatalf("shop %q: exit %d, want %d\n%s%s", args, code, want, out, errOut)
		}
		return out + errOut
	}
	wantIn := func(said string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(said, part) {
				t.Errorf("%q is not in\n%s", part, said)
			}
		}
	}
	engine := func() lock.Locker {
		e, err := handoff.New(r.Client, handoff.Options{Prefix: r.Prefix})
		testkit.Must(t, err)
		t.Cleanup(func() { _ = e.Close(context.WithoutCancel(t.Context())) })
		return e.Handoff()
	}
	inTime := testkit.Within(t, testenv.Still)
	holds, err := engine().Acquire(inTime, "lock:{1}")
	testkit.Must(t, err)
	waited := make(chan lock.Lease, 1)
	go func() {
		l, err := engine().Acquire(inTime, "lock:{1}")
		testkit.Check(t, err)
		waited <- l
	}()
	for r.Client.ZCard(inTime, handoff.KeysOf(key).Queue).Val() == 0 && inTime.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	holder := fmt.Sprintf("  holder:  pid %d on ", os.Getpid())
	wantIn(run(cli.ExitOK, "show", key), key+"\n", holder, "expires in ", "  waiting: 1\n", "  fence:   ")
	wantIn(run(cli.ExitOK, "show", key, "--lang", "zh"), "持有者", "  等待：  1\n")

	var forced lockReport
	testkit.Must(t, json.Unmarshal([]byte(run(cli.ExitOK, "release", key, "-o", "json")), &forced))
	next := <-waited
	if next == nil || len(forced.Holders) != 1 || forced.Fence <= holds.Fence() || next.Fence() <= forced.Fence {
		t.Fatalf("release says %+v of a holder with fence %d; the next is %v", forced, holds.Fence(), next)
	}
	testkit.Check(t, next.Release(inTime))
	wantIn(run(cli.ExitFailed, "release", key), "is free: nobody holds it")
	wantIn(run(cli.ExitOK, "show", key), "  free: nobody holds it\n", "  waiting: 0\n")

	wantIn(run(cli.ExitOK, "show", key+"s"), "nobody ever has: is that the key?")

	again, err := engine().Acquire(inTime, "lock:{1}")
	testkit.Must(t, err)
	wantIn(run(cli.ExitOK, "release", key), "  evicted: pid ", "which had ", "let the data refuse every fence below ")
	_ = again.Release(inTime)

	r.Client.Set(inTime, key, "somebody", 0)
	wantIn(run(cli.ExitFailed, "release", key), "is no lock of the engine")
	r.Client.Del(inTime, key)
	r.Client.RPush(inTime, key, "somebody")
	wantIn(run(cli.ExitFailed, "show", key), "is no lock of the engine")

	r.URL = "redis://u:pass@127.0.0.1:1/0"
	said := run(cli.ExitFailed, "show", key)
	wantIn(said, "Redis at redis://", "connection refused")
	if strings.Contains(said, "pass@") {
		t.Errorf("the password is in %s", said)
	}
	r.URL = "zz"
	run(cli.ExitUsage, "show", key)
	wantIn(run(cli.ExitUsage, "shown", key), "want show or release")
}
