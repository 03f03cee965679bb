package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lastitem/faultlab"
	"lastitem/internal/localstack"
	"lastitem/internal/testenv"
)

// ownService is a command line that passes our own binary to --serve as if it were somebody else's service.
func ownService(shop, mode string, more ...string) []string {
	args := []string{
		"lab", "--serve", "'" + shop + "' serve", "--env", "SHOP_LISTEN={{addr}}", "--env", "SHOP_REDIS={{redis}}", "--env", "SHOP_SQL={{mysql_dsn}}",
		"--env", "SHOP_ADMIN_TOKEN=token", "--env", "SHOP_LOCK_TTL=700ms", "--env", "SHOP_HEALTH_INTERVAL=0", "--env", "SHOP_PURGE_INTERVAL=0",
		"--request", "POST /deduct_stock/" + mode + "?product_id={{product}}&store=sql&wait_ms=0", "--header", "Authorization: Bearer token",
		"--reset-url", `PUT /products/{{product}}/stock {"stock":{{stock}}}`,
		"--stock-url", "/products/{{product}}#/stock/sql", "--orders-url", "/products/{{product}}/orders#/orders",
	}
	return append(args, more...)
}

// A pause breaks lua-lock of a service that the lab only knows how to start, ask and read; --replay of the saved file breaks it
// again; lease-seq of the same service is not broken.
func TestLabServe(t *testing.T) {
	testenv.Slow(t, "plays dozens of schedules on real servers")
	t.Parallel()
	testenv.Installed(t, localstack.Redis, localstack.MySQL)
	shop := program(t)
	story := filepath.Join(t.TempDir(), "story.json")
	out, code := runShop(t, shop, ownService(shop, "lua-lock", "--fault", "pause", "--out", story)...)
	if code != exitFailed || !strings.Contains(out, "pause       O ") || !strings.Contains(out, "lock:lua-lock:{#} (700ms)") {
		t.Fatalf("lua-lock under pause: exit %d, want %d, O and the TTL of its lock:\n%s", code, exitFailed, out)
	}
	text, err := os.ReadFile(story)
	if err != nil {
		t.Fatal(err)
	}
	var told faultlab.Result
	if err := json.Unmarshal(text, &told); err != nil || told.Serve == nil || told.Worst == nil || told.Worst.Story == nil {
		t.Fatalf("%s holds no service and story: %v", story, err)
	}
	out, code = runShop(t, shop, "lab", "--replay", story, "--times", "3")
	if code != exitOK || !strings.Contains(out, "O 3/3") {
		t.Errorf("replay: exit %d, want %d and O 3/3:\n%s", code, exitOK, out)
	}
	out, code = runShop(t, shop, ownService(shop, "lease-seq", "--fault", "pause")...)
	if code != exitOK || !strings.Contains(out, "Nothing broke it") {
		t.Errorf("lease-seq: exit %d, want %d:\n%s", code, exitOK, out)
	}
}

// Where the lab cannot test a service, the error names the option to change.
func TestLabServeSays(t *testing.T) {
	testenv.Slow(t, "starts real servers for each mistake")
	t.Parallel()
	testenv.Installed(t, localstack.Redis, localstack.MySQL)
	shop := program(t)
	tests := map[string]struct {
		args []string
		want string
	}{
		"does not start":   {[]string{"--serve", "'" + shop + "' serve --no-such-flag {{port}} {{redis}}"}, "no-such-flag"},
		"is not sold":      {[]string{"--request", "POST /deduct_stock/no-such-mode"}, "is not sold (unknown): POST /deduct_stock/no-such-mode answered 404"},
		"does not reset":   {[]string{"--reset-url", `PUT /products/{{product}}/stock {"stock":3}`}, "the reset did not reset"},
		"reads the wrong":  {[]string{"--stock-url", "/products/{{product}}#/stock/redis", "--lanes", "1"}, "want 9"},
		"no such field":    {[]string{"--orders-url", "/products/{{product}}/orders#/rows"}, "there is no /rows"},
		"bypasses the lab": {[]string{"--env", "SHOP_REDIS=", "--env", "SHOP_SQL=sqlite:" + filepath.Join(t.TempDir(), "own.db"), "--keep-redis"}, "does not use the addresses"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, errOut, code := shopSays(t, shop, ownService(shop, "sql-atomic", append([]string{"--fault", "replicas", "--lanes", "1"}, tt.args...)...)...)
			if code != exitFailed || !strings.Contains(errOut, tt.want) {
				t.Errorf("exit %d, want %d and %q:\n%s", code, exitFailed, tt.want, errOut)
			}
		})
	}
}

// A command line that cannot work is refused before anything is started.
func TestLabServeUsage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want string
	}{
		"no serve":       {[]string{"lab", "--request", "POST /buy"}, "--request needs --serve"},
		"no serve, TTL":  {[]string{"lab", "--lock-ttl", "1s", "--mode", "nobody"}, "--lock-ttl needs --serve"},
		"no serve, env":  {[]string{"lab", "--env", "A=b", "--mode", "nobody"}, "--env needs --serve"},
		"a short TTL":    {ownService("shop", "lua-lock", "--lock-ttl", "1ns"), "--lock-ttl \"1ns\": want 1ms to 1m"},
		"no request":     {[]string{"lab", "--serve", "app {{port}} {{redis}}"}, "--request"},
		"a mode":         {ownService("shop", "lua-lock", "--mode", "lua-lock"), "--mode is about lastitem's own modes"},
		"a bad status":   {ownService("shop", "lua-lock", "--ok", "2xx"), "--ok \"2xx\""},
		"a bad TTL":      {ownService("shop", "lua-lock", "--lock-ttl", "soon"), "--lock-ttl"},
		"no such file":   {ownService("shop", "lua-lock", "--setup-sql", "@no/such.sql"), "--setup-sql"},
		"retry, no key":  {ownService("shop", "lua-lock", "--fault", "retry"), "--key-header"},
		"two stocks":     {ownService("shop", "lua-lock", "--stock-sql", "SELECT 1"), "want one of them"},
		"replay as well": {ownService("shop", "lua-lock", "--replay", "x.json"), "exclude each other"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { wantRefused(t, newRoot("en"), tt.want, tt.args...) })
	}
}

// The exit code is 1 for a finding and for a schedule that proved nothing, and 3 if no schedule could be judged.
func TestLabExitCodes(t *testing.T) {
	t.Parallel()
	wrong := []string{"FAILED: lost"}
	for name, tt := range map[string]struct {
		res         faultlab.Result
		ours, serve int
	}{
		"as claimed": {faultlab.Result{Schedules: 2, Judged: 2, Cells: []faultlab.Cell{{Found: "."}}}, exitOK, exitOK},
		"a letter":   {faultlab.Result{Schedules: 2, Judged: 2, Cells: []faultlab.Cell{{Found: "O", Wrong: wrong}}}, exitFailed, exitFailed},
		"one judged": {faultlab.Result{Schedules: 2, Judged: 1, Cells: []faultlab.Cell{{Found: ".", Wrong: wrong}}}, exitFailed, exitFailed},
		"none":       {faultlab.Result{Schedules: 2, Cells: []faultlab.Cell{{Wrong: wrong}}}, exitInconclusive, exitInconclusive},
	} {
		code := func(err error) int {
			var e *exitError
			if errors.As(err, &e) {
				return e.code
			}
			return exitOK
		}
		if ours, serve := code(asClaimed(&tt.res)), code(unbroken(&tt.res)); ours != tt.ours || serve != tt.serve {
			t.Errorf("%s: exit %d for our modes and %d for a service, want %d and %d", name, ours, serve, tt.ours, tt.serve)
		}
	}
}

// A file of statements ends each with a semicolon at the end of a line.
func TestStatements(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "schema.sql")
	if err := os.WriteFile(file, []byte("CREATE TABLE a (\n x INT\n);\r\nINSERT INTO a VALUES (';');\n\nINSERT INTO a VALUES (2)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := statements("@" + file)
	if err != nil || len(all) != 3 || !strings.HasPrefix(all[1], "INSERT INTO a VALUES (';')") {
		t.Errorf("statements = %q, %v, want three", all, err)
	}
}
