package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lastitem/internal/cli"
	"lastitem/stack"
	"lastitem/testkit/testenv"
)

// Two replicas break a service on PostgreSQL that trusts what it has read, and nothing that the lab plays breaks one
// that writes by a statement that checks.
func TestLabServePostgres(t *testing.T) {
	testenv.Slow(t, "plays dozens of schedules on real servers")
	t.Parallel()
	testenv.Installed(t, stack.Postgres)
	shop, service := program(t), filepath.Join(t.TempDir(), "service")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", service, "../../testkit/habits/postgres")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for kind, tt := range map[string]struct {
		faults, want string
		code         int
	}{
		"bare": {"replicas", "replicas    O ", cli.ExitFailed},
		"mended": {"threads,replicas,pause,crash,retry,late-write",
			"Nothing that was played broke it: threads, replicas, pause, crash, retry, late-write.", cli.ExitOK},
	} {
		t.Run(kind, func(t *testing.T) {
			out, code := runShop(t, shop, "lab", "--serve", "'"+service+"' "+kind+" {{port}} {{postgres}}",
				"--request", "POST /buy/{{product}}", "--key-header", "Idempotency-Key", "--fault", tt.faults, "--lanes", "2",
				"--setup-sql", "CREATE TABLE products (id BIGINT PRIMARY KEY, stock INT)",
				"--setup-sql", "CREATE TABLE orders (id TEXT PRIMARY KEY, product BIGINT)",
				"--reset-sql", "DELETE FROM orders WHERE product = {{product}}",
				"--reset-sql", "INSERT INTO products VALUES ({{product}}, {{stock}}) "+
					"ON CONFLICT (id) DO UPDATE SET stock = excluded.stock",
				"--stock-sql", "SELECT stock FROM products WHERE id = {{product}}",
				"--orders-sql", "SELECT id FROM orders WHERE product = {{product}}")
			if code != tt.code || !strings.Contains(out, tt.want) {
				t.Errorf("exit %d, want %d and %q:\n%s", code, tt.code, tt.want, out)
			}
		})
	}
}
