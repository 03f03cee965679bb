package handoff_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lastitem/internal/testenv"
)

// A program of another module, which uses only the packages that the script copies.
const takenProgram = `package main

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"

	"example.com/locks/lock"
	"example.com/locks/lock/handoff"
)

func main() {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		panic(err)
	}
	options.MaxRetries, options.ContextTimeoutEnabled = -1, true
	engine, err := handoff.New(redis.NewClient(options), handoff.Options{})
	if err != nil {
		panic(err)
	}
	ctx, key := context.Background(), os.Args[1]
	lease, err := engine.Handoff().Acquire(ctx, key)
	fmt.Println("acquired:", err)
	_, err = engine.Fair().Acquire(lock.WithWait(ctx, 0), key)
	fmt.Println("a rival:", err)
	fmt.Println("released:", lease.Release(ctx), engine.Close(ctx))
}
`

// The engine can be taken away, from any directory: it builds in a module of another name, and locks on a real server.
func TestEngineCanBeTakenAway(t *testing.T) {
	testenv.Slow(t, "compiles a module")
	t.Parallel()
	s := testenv.Redis(t)
	script, err := filepath.Abs("../../../scripts/take-lock")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	dir := filepath.Join(elsewhere, "locks")
	run := func(in, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = in
		cmd.Env = append(os.Environ(), "REDIS_URL="+s.URL, "GOFLAGS=", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	run(elsewhere, script, "locks", "example.com/locks") // from a directory of the user's
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(takenProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "acquired: <nil>\na rival: lock: busy\nreleased: <nil> <nil>\n"
	if got := run(dir, "go", "run", ".", s.Prefix+"taken"); got != want {
		t.Errorf("the program printed\n%swant\n%s", got, want)
	}
}
