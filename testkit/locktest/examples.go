package locktest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
)

// EmbeddedRedis returns an embedded Redis, whose clock an example may turn, and a client of it.
func EmbeddedRedis() (server *miniredis.Miniredis, c *redis.Client, stop func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	c = redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	return server, c, func() {
		_ = c.Close()
		server.Close()
	}
}

// TryOnce acquires without waiting.
func TryOnce(l lock.Locker, key string) (lock.Lease, error) {
	return l.Acquire(lock.WithWait(context.Background(), 0), key)
}

// printed runs f and returns its output, like the testing package with examples that have an output.
func printed(t *testing.T, f func()) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	func() {
		usual := os.Stdout
		os.Stdout = file
		defer func() { os.Stdout = usual }()
		f()
	}()
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// WantPrinted fails if an example does not print want.
func WantPrinted(t *testing.T, example func(), want string) {
	t.Helper()
	if got := printed(t, example); got != want {
		t.Errorf("the example printed\n%swant\n%s", got, want)
	}
}
