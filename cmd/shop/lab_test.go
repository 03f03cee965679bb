package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"lastitem/contract/api"
	"lastitem/faultlab"
	"lastitem/faultlab/fault"
	"lastitem/internal/cli"
	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// The committed matrix covers every mode and fault, and says what the modes claim. A service that the lab does not run
// is not in it.
func TestMatrixSaysWhatIsClaimed(t *testing.T) {
	t.Parallel()
	matrix, err := faultlab.Committed()
	testkit.Must(t, err)
	modes := slices.DeleteFunc(modesHere(), func(m api.Mode) bool { return faultlab.LeftOut(m) != "" })
	cells := faultlab.Cells(modes, matrix, faultlab.Options{Faults: fault.Names()})
	for _, want := range cells {
		c, there := matrix.Cell(want.Mode, want.Store, want.Fault)
		switch {
		case !there:
			t.Errorf("%s %s %s is not in matrix.json: run 'shop lab --all --fault %s --update faultlab/matrix.json'", want.Mode,
				want.Store, want.Fault, want.Fault)
		case !c.Sampled && c.Found != want.Claim || c.Claim != want.Claim || len(c.Wrong) > 0:
			t.Errorf("%s %s %s: matrix.json has %q, wrong %q, %d left out; want %q", c.Mode, c.Store, c.Fault, c.Found, c.Wrong,
				c.Left, want.Claim)
		case c.Tried == 0:
			t.Errorf("%s %s %s: nothing was tried", c.Mode, c.Store, c.Fault)
		}
	}
	if len(matrix.Cells) != len(cells) {
		t.Errorf("matrix.json has %d cells, %d can happen", len(matrix.Cells), len(cells))
	}
}

// The lab breaks lua-lock without a hint, does not break lease-seq, and plays a story again from its file.
func TestLab(t *testing.T) {
	testenv.Slow(t, "plays dozens of schedules on real servers")
	t.Parallel()
	testenv.Installed(t, stack.Redis, stack.MySQL)
	shop := program(t)
	page := filepath.Join(t.TempDir(), "page.html")
	out, code := runShop(t, shop, "lab", "--mode", "lua-lock", "--store", "sql", "--fault", "pause", "--all", "--lanes",
		"4", "-o", "json", "--html", page)
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "UPDATE product_stock") ||
		!strings.Contains(string(text), "SIGSTOP") {
		t.Errorf("--html: %v, %d bytes, want the schedule that broke lua-lock, command by command", err, len(text))
	}
	if code != cli.ExitOK || !strings.Contains(out, `"found": "O"`) {
		t.Fatalf("lua-lock under pause: exit %d, want %d and O:\n%s", code, cli.ExitOK, out)
	}
	out, code = runShop(t, shop, "lab", "--replay", fileOf(t, out), "--times", "5", "--lanes", "4")
	if code != cli.ExitOK || !strings.Contains(out, "O 5/5") {
		t.Errorf("replay: exit %d, want %d and O 5/5:\n%s", code, cli.ExitOK, out)
	}
	out, code = runShop(t, shop, "lab", "--mode", "lua-lock", "--store", "sql", "--fault", "pause", "--expiry", "forced",
		"--lanes", "4", "-o", "json")
	if code != cli.ExitOK || !strings.Contains(out, `"found": "O"`) ||
		!strings.Contains(out, "the locks expire at once (keys and sessions: 1)") {
		t.Errorf("lua-lock under pause, forced: exit %d, want %d, O and one lock that expires:\n%s", code, cli.ExitOK, out)
	}
	testThird(t, shop, out)
	testThirdOnOneReplica(t, shop)
	out, code = runShop(t, shop, "lab", "--mode", "lease-seq", "--fault", "replicas,pause", "--all", "--lanes", "4")
	if code != cli.ExitOK || !strings.Contains(out, "Every outcome is as claimed.") {
		t.Errorf("lease-seq: exit %d, want %d:\n%s", code, cli.ExitOK, out)
	}
}

// A read that a copy of the database answers breaks a mode that trusts its lock, in every run, and none whose write has
// a condition.
func TestLabStale(t *testing.T) {
	testenv.Slow(t, "plays schedules on real servers")
	t.Parallel()
	testenv.Installed(t, stack.Redis, stack.MySQL)
	shop := program(t)
	out, code := runShop(t, shop, "lab", "--mode", "handoff", "--store", "sql", "--fault", "stale", "--all", "-o", "json")
	if code != cli.ExitOK || !strings.Contains(out, `"found": "O"`) {
		t.Fatalf("handoff: exit %d, want %d and O:\n%s", code, cli.ExitOK, out)
	}
	out, code = runShop(t, shop, "lab", "--replay", fileOf(t, out), "--times", "3")
	if code != cli.ExitOK || !strings.Contains(out, "O 3/3") {
		t.Errorf("replay: exit %d, want %d and O 3/3:\n%s", code, cli.ExitOK, out)
	}
	out, code = runShop(t, shop, "lab", "--mode", "sql-version,lease-seq", "--fault", "stale", "--all")
	if code != cli.ExitOK || !strings.Contains(out, "Every outcome is as claimed.") {
		t.Errorf("sql-version, lease-seq: exit %d, want %d:\n%s", code, cli.ExitOK, out)
	}
}

// The lab repeats requests about reservations, and adjusts the stock, where a command is one script.
func TestLabReserves(t *testing.T) {
	t.Parallel()
	testenv.Installed(t, stack.Redis)
	out, code := runShop(t, program(t), "lab", "--mode", "reserve-redis", "--fault", "replicas,retry")
	if code != cli.ExitOK || !strings.Contains(out, "Every outcome is as claimed.") {
		t.Errorf("exit %d, want %d:\n%s", code, cli.ExitOK, out)
	}
}

// fileOf returns the name of a file with this text.
func fileOf(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// testThird: a schedule with a third held request is played in the order that its file names.
func testThird(t *testing.T, shop, story string) {
	var told faultlab.Result
	testkit.Must(t, json.Unmarshal([]byte(story), &told))
	s := &told.Worst.Schedule
	second := *s.A
	second.Server, second.Pattern, second.Nth, second.Cut = "sql", "START TRANSACTION", 1, "command" // no lock yet
	s.B = &second
	// so that the story is printed
	s.C, s.Order, told.Worst.Outcome = s.B, "CBA", "none"
	text, err := json.Marshal(told)
	testkit.Must(t, err)
	out, code := runShop(t, shop, "lab", "--replay", fileOf(t, string(text)), "--times", "1", "--lanes", "1")
	var on []int // the columns of those that go on
	for line := range strings.Lines(out) {
		if before, _, ok := strings.Cut(line, "** let go on"); ok {
			on = append(on, len(before)/50)
		}
	}
	if code != cli.ExitFailed || !slices.Equal(on, []int{2, 1, 0}) {
		t.Errorf("exit %d, they go on in the order %v, want %d and C, B, A:\n%s", code, on, cli.ExitFailed, out)
	}
}

// testThirdOnOneReplica: with threads the third request is on the same replica as the others. On another replica it
// would break a mutex of the process.
func testThirdOnOneReplica(t *testing.T, shop string) {
	const at = `{"server":"sql","pattern":"START TRANSACTION","nth":1,"cut":"answer"}`
	story := `{"worst":{"schedule":{"mode":"mutex","store":"sql","fault":"threads","a":` + at + `,"b":` + at + `,"c":` +
		at + `,"order":"ACB"},"outcome":"."}}`
	if out, code := runShop(t, shop, "lab", "--replay", fileOf(t, story), "--times", "2"); code != cli.ExitOK {
		t.Errorf("mutex under threads, three requests: exit %d, want %d:\n%s", code, cli.ExitOK, out)
	}
}

// --replay has a result in JSON as well, on stdout or in a file, and ends with the same exit code.
func TestReplayInEveryForm(t *testing.T) {
	t.Parallel()
	s := faultlab.Schedule{Mode: "lua-lock", Store: api.SQL, Fault: api.Pause}
	broken := faultlab.Played{Schedule: s, Outcome: "O", Story: &faultlab.Story{Initial: 10}}
	held := faultlab.Played{Schedule: s, Outcome: ".", Story: &faultlab.Story{Initial: 10}}
	for name, tt := range map[string]struct {
		played []faultlab.Played
		same   int
		text   string
		ok     bool
	}{
		"as told": {[]faultlab.Played{broken, broken}, 2, "pause: O 2/2", true},
		"not so":  {[]faultlab.Played{broken, held}, 1, "pause: O 1/2", false},
	} {
		file := filepath.Join(t.TempDir(), "x.json")
		for _, args := range [][]string{{"-o", "json"}, {"--out", file}, nil} {
			f := labFlags{lang: "en"}
			cmd := &cobra.Command{Use: "lab", RunE: func(cmd *cobra.Command, _ []string) error {
				return f.printReplay(cmd, replayed{Schedule: s, Expected: "O", Played: tt.played})
			}}
			f.add(cmd)
			code, out, errOut := commandLine(t.Context(), cmd, args...)
			if (code == cli.ExitOK) != tt.ok || !tt.ok && code != cli.ExitFailed {
				t.Errorf("%s, %q: exit %d (%s), want success: %t", name, args, code, errOut, tt.ok)
			}
			if text := !slices.Contains(args, "json"); strings.Contains(out, tt.text) != text {
				t.Errorf("%s, %q: the text %q is in stdout: %t, want %t:\n%s", name, args, tt.text, !text, text, out)
			}
			text := []byte(out)
			switch {
			case args == nil:
				continue
			case args[0] == "--out":
				var err error
				if text, err = os.ReadFile(file); err != nil {
					t.Fatal(err)
				}
			}
			var got replayed
			if err := json.Unmarshal(text, &got); err != nil || got.Same != tt.same || got.Expected != "O" ||
				len(got.Played) != 2 || got.Played[0].Story == nil {
				t.Errorf("%s, %q: %v, %+v, want %d of 2 as told, with their stories", name, args, err, got, tt.same)
			}
		}
	}
}

// A command line or a --replay file that leaves nothing to play is refused before a server is started.
func TestLabUsage(t *testing.T) {
	t.Parallel()
	story := func(text string) string { return fileOf(t, text) }
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"cannot happen": {[]string{"--mode", "sql-atomic", "--fault", "slow"},
			"sql-atomic (sql), slow: cannot happen to this mode"},
		"broken before": {[]string{"--mode", "unsafe", "--fault", "pause"},
			"unsafe (redis), pause: threads breaks the mode already (O)"},
		"no such store": {[]string{"--mode", "sql-atomic", "--store", "redis"},
			"sql-atomic keeps its count in sql, not in redis"},
		"no such expiry": {[]string{"--expiry", "soon"}, "want awaited or forced"},
		"not measured": {[]string{"--expiry", "forced", "--all", "--update", "matrix.json"},
			"--update and --expiry forced exclude each other"},
		"as in the file": {[]string{"--expiry", "forced", "--replay", "story.json"}, "exclude each other: --expiry --replay"},
		"told in files": {[]string{"--tell", "stories", "-o", "json", "--lanes", "0"},
			"exclude each other: --output --tell"},
		"no JSON":  {[]string{"--replay", story(`{"worst": 3`)}, "is no JSON"},
		"endless":  {[]string{"--replay", "/dev/zero"}, "is no JSON"},
		"no story": {[]string{"--replay", story(`{}`)}, `no schedule in "worst"`},
		"unknown fault": {[]string{"--replay",
			story(`{"worst":{"schedule":{"mode":"lua-lock","store":"sql","fault":"none"}}}`)}, `unknown fault "none"`},
		"unknown mode": {[]string{"--replay",
			story(`{"worst":{"schedule":{"mode":"none","store":"sql","fault":"pause"}}}`)}, `unknown mode "none"`},
		"without victim": {[]string{"--replay",
			story(`{"worst":{"schedule":{"mode":"lua-lock","store":"sql","fault":"pause"}}}`)},
			"needs the position of the victim"},
	} {
		t.Run(name, func(t *testing.T) { wantRefused(t, newRoot("en"), tt.want, append([]string{"lab"}, tt.args...)...) })
	}
}

// ownSettings are the variables and headers of ownService, of which a story holds the names only.
var ownSettings = []string{
	"--env", "SHOP_ADMIN_TOKEN=token", "--env", "SHOP_LOCK_TTL=700ms", "--env", "SHOP_HEALTH_INTERVAL=0",
	"--env", "SHOP_PURGE_INTERVAL=0", "--env", "SHOP_SWEEP=0", // else commands of theirs come in some requests only
	"--header", "Authorization: Bearer token",
}

// ownService is a command line that passes our own binary to --serve as if it were somebody else's service.
func ownService(shop, mode string, more ...string) []string {
	args := []string{
		"lab", "--serve", "'" + shop + "' serve", "--env", "SHOP_LISTEN={{addr}}", "--env", "SHOP_REDIS={{redis}}", "--env",
		"SHOP_SQL={{mysql_dsn}}",
		"--request", "POST /deduct_stock/" + mode + "?product_id={{product}}&store=sql&wait_ms=0",
		"--reset-url", `PUT /products/{{product}}/stock {"stock":{{stock}}}`,
		"--stock-url", "/products/{{product}}#/stock/sql", "--orders-url", "/products/{{product}}/orders#/orders",
	}
	for len(more) > 1 && slices.Contains(args, more[0]) && more[0] != "--env" { // each may be given once
		args[slices.Index(args, more[0])+1], more = more[1], more[2:]
	}
	return slices.Concat(args, ownSettings, more)
}

// A pause breaks lua-lock of a service that the lab only knows how to start, ask and read; --replay of the saved file
// breaks it again; lease-seq of the same service is not broken.
func TestLabServe(t *testing.T) {
	testenv.Slow(t, "plays dozens of schedules on real servers")
	t.Parallel()
	testenv.Installed(t, stack.Redis, stack.MySQL)
	shop := program(t)
	story := filepath.Join(t.TempDir(), "story.json")
	out, code := runShop(t, shop, ownService(shop, "lua-lock", "--fault", "pause", "--lanes", "2", "--out", story)...)
	if code != cli.ExitFailed || !strings.Contains(out, "pause       O ") ||
		!strings.Contains(out, "lock:lua-lock:{#} (700ms)") {
		t.Fatalf("lua-lock under pause: exit %d, want %d, O and the TTL of its lock:\n%s", code, cli.ExitFailed, out)
	}
	text := testkit.Read(t, story)
	var told faultlab.Result
	if err := json.Unmarshal(text, &told); err != nil || told.Serve == nil || told.Worst == nil ||
		told.Worst.Story == nil {
		t.Fatalf("%s holds no service and story: %v", story, err)
	}
	out, notes, code := shopSays(t, shop, append([]string{"lab", "--replay", story, "--times", "3"}, ownSettings...)...)
	if code != cli.ExitOK || !strings.Contains(out, "O 3/3") || !strings.Contains(notes, "\n2 lanes of three replicas") {
		t.Errorf("replay: exit %d, want %d and O 3/3 on 2 lanes:\n%s\n%s", code, cli.ExitOK, out, notes)
	}
	out, code = runShop(t, shop, ownService(shop, "lease-seq", "--fault", "pause")...)
	if code != cli.ExitOK || !strings.Contains(out, "Nothing that was played broke it: pause.") {
		t.Errorf("lease-seq: exit %d, want %d:\n%s", code, cli.ExitOK, out)
	}
}

// habitsServer builds the shop of habits, and returns its path.
func habitsServer(t *testing.T) string {
	t.Helper()
	server := filepath.Join(t.TempDir(), "server")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", server, "../../testkit/habits/server")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return server
}

// The lab finds what a repetition after a crash does to a service that stores its answer after the sale, or whose keys
// say for ever that they are running, and what becomes of a lock in a table that is polled. It does not accuse one that
// turns a key away while it is in progress. Work for a request is the
// request's, whichever replica does it. And it cannot see what happens without a command, or in a trigger.
func TestLabServeHabits(t *testing.T) {
	testenv.Slow(t, "plays dozens of schedules on real servers")
	t.Parallel()
	testenv.Installed(t, stack.Redis, stack.MySQL)
	shop, server := program(t), habitsServer(t)
	inRedis := []string{"--key-header", "Idempotency-Key", "--reset-redis", "SET stock:{{product}} {{stock}}",
		"--stock-redis", "GET stock:{{product}}", "--orders-redis", "LRANGE orders:{{product}} 0 -1", "--fault", "retry"}
	tables := []string{"--setup-sql", "CREATE TABLE products (id BIGINT PRIMARY KEY, stock INT)",
		"--setup-sql", "CREATE TABLE orders (id VARCHAR(40) PRIMARY KEY, product BIGINT)",
		"--reset-sql", "DELETE FROM orders WHERE product = {{product}}",
		"--reset-sql", "REPLACE INTO products VALUES ({{product}}, {{stock}})",
		"--stock-sql", "SELECT stock FROM products WHERE id = {{product}}",
		"--orders-sql", "SELECT id AS order_id FROM orders WHERE product = {{product}}"}
	inSQL := slices.Concat(tables, []string{"--setup-sql",
		"CREATE TABLE locks (id BIGINT PRIMARY KEY, owner VARCHAR(40), until DATETIME(3))", "--reset-sql",
		"REPLACE INTO locks VALUES ({{product}}, NULL, NULL)", "--fault", "slow"})
	inTrigger := slices.Concat(tables, []string{"--setup-sql", "CREATE TRIGGER sells AFTER INSERT ON orders " +
		"FOR EACH ROW BEGIN " +
		"DECLARE n INT; SELECT stock INTO n FROM products WHERE id = NEW.product; " +
		"IF n < 1 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'sold out'; END IF; " +
		"UPDATE products SET stock = n - 1 WHERE id = NEW.product; END", "--fault", "threads"})
	inVariable := append(slices.Clone(inRedis[2:8]), "--fault", "threads")
	asJobs := append(slices.Clone(inRedis[2:len(inRedis)-1]), "crash", "--ok", "202")
	ttls := map[string]string{"does a job again": "1000", "holds a unit": "1000",
		"tries a lock for long": "600000", "holds a unit for long": "9000",
		"polls a lock in a table for long": "2500"}
	for kind, tt := range map[string]struct {
		where string
		args  []string
		want  string // the line of the fault
		code  int
	}{
		"stores its answer late": {"{{redis}}", inRedis, "retry       D ", cli.ExitFailed},
		"says running for ever": {"{{redis}}", append([]string{"--products", "7f3e,SKU-1"}, inRedis...), "retry       X ",
			cli.ExitFailed},
		"says in progress":        {"{{redis}}", inRedis, "retry       . ", cli.ExitOK},
		"polls a lock in a table": {"{{mysql_dsn}}", inSQL, "slow        O ", cli.ExitFailed},
		"counts in a variable":    {"{{redis}}", inVariable, "threads     . ", cli.ExitOK},
		"sells in a trigger":      {"{{mysql_dsn}}", inTrigger, "threads     . ", cli.ExitOK},
		"works in one step":       {"{{redis}}", asJobs, "crash       .       2", cli.ExitOK},
		"says duplicate":          {"{{redis}}", inRedis, "retry       . ", cli.ExitOK},
		"forgets a key":           {"{{redis}}", inRedis, "Not played: retry minutes after the first request", cli.ExitOK},
		"tries a lock": {"{{redis}}", append(slices.Clone(inRedis[2:8]), "--fault", "replicas"),
			"else than at a stock of zero",
			cli.ExitOK},
		"tries a lock for long": {"{{redis}}", append(slices.Clone(inRedis[2:8]), "--fault", "crash", "--declined", "409",
			"--declined-body", "busy", "--lock-ttl", "300ms"), "crash       X", cli.ExitFailed},
		"does a job again": {"{{redis}}", append(slices.Clone(asJobs), "--settle", "2s"), "crash       !", cli.ExitFailed},
		"holds a unit": {"{{redis}}", append(slices.Clone(asJobs), "--ok", "201,200", "--settle", "3s"), "crash       . ",
			cli.ExitOK},
		"holds a unit for long": {"{{redis}}", append(slices.Clone(asJobs), "--ok", "200"), "crash       ? ",
			exitInconclusive},
		"polls a lock in a table for long": {"{{mysql_dsn}}", append(slices.Clone(inSQL), "--for", "3s"),
			"the rival was kept out all the time", exitInconclusive},
		"works in three steps": {"{{redis}}", append(asJobs, "--env", "REPLICA={{replica}}"), "crash       L       4",
			cli.ExitFailed}, // all work is B's
	} {
		t.Run(kind, func(t *testing.T) {
			out, code := runShop(t, shop, append([]string{"lab", "--serve",
				"'" + server + "' '" + strings.TrimSuffix(kind, " for long") + "' {{port}} " + tt.where + " " +
					cmp.Or(ttls[kind], "{{ttl_ms}}"), "--ready", "/health", "--lanes", "2",
				"--request", "POST /buy/{{product}}"}, tt.args...)...)
			if code != tt.code || !strings.Contains(out, tt.want) {
				t.Errorf("exit %d, want %d and %q:\n%s", code, tt.code, tt.want, out)
			}
		})
	}
}

// The lab finds what two cancels of one order do, and a cancel of one that is shipped, to a service that reads the
// state and then writes it, also if the replica dies in between. It does not accuse one that does both in one
// transaction.
func TestLabServeCancels(t *testing.T) {
	testenv.Slow(t, "plays dozens of schedules on real servers")
	t.Parallel()
	testenv.Installed(t, stack.MySQL)
	shop, server := program(t), habitsServer(t)
	for kind, tt := range map[string]struct {
		code int
		want []string
	}{
		"cancels by reading": {cli.ExitFailed, []string{"replicas    OA ", "crash       L ", "retry       OL ",
			"(cancelled), A after sql: SELECT", "(cancelled-shipped), A after sql: SELECT"}},
		"cancels once": {cli.ExitOK, []string{"Nothing that was played broke it: replicas, crash."}},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "shop.yaml")
			testkit.Must(t, os.WriteFile(file, []byte(strings.NewReplacer("SERVER", server, "KIND", kind).Replace(
				`start:
  command: SERVER 'KIND' {{port}} {{mysql_dsn}} {{ttl_ms}}
  setup:
    - sql: CREATE TABLE products (id BIGINT PRIMARY KEY, stock INT)
    - sql: CREATE TABLE orders (id VARCHAR(40) PRIMARY KEY, product BIGINT, state VARCHAR(10))
  ready: /health
buy: POST /buy/{{product}}
cancel: POST /orders/{{order}}/cancel
ship: POST /orders/{{order}}/ship
stock: {sql: "SELECT stock FROM products WHERE id = {{product}}"}
orders: {sql: "SELECT id AS order_id FROM orders WHERE product = {{product}} AND state <> 'cancelled'"}
reset:
  - sql: DELETE FROM orders WHERE product = {{product}}
  - sql: REPLACE INTO products VALUES ({{product}}, {{stock}})
allow_untested: retry
`)), 0o600))
			out, code := runShop(t, shop, "lab", "--service", file, "--fault", "replicas,crash,retry", "--lanes", "2")
			testkit.Is(t, code, tt.code, "exit code")
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("the report lacks %q:\n%s", want, out)
				}
			}
		})
	}
}

// Where the lab cannot test a service, the error names the option to change.
func TestLabServeSays(t *testing.T) {
	testenv.Slow(t, "starts real servers for each mistake")
	t.Parallel()
	testenv.Installed(t, stack.Redis, stack.MySQL)
	shop := program(t)
	tests := map[string]struct {
		args []string
		want string
	}{
		"does not start": {[]string{"--serve", "'" + shop + "' serve --no-such-flag {{port}} {{redis}}"}, "no-such-flag"},
		"is not sold": {[]string{"--request", "POST /deduct_stock/no-such-mode"},
			"answered 404 {\"type\""},
		"does not reset": {[]string{"--reset-url", `PUT /products/{{product}}/stock {"stock":3}`},
			"left a stock of 3, want 10"},
		"reads the wrong": {[]string{"--stock-url", "/products/{{product}}#/stock/redis"},
			"an order was written, but the stock stayed 10"},
		"no such field": {[]string{"--orders-url", "/products/{{product}}/orders#/rows"}, "there is no /rows"},
		"bypasses the lab": {[]string{"--env", "SHOP_REDIS=", "--env",
			"SHOP_SQL=sqlite:" + filepath.Join(t.TempDir(), "own.db"), "--keep-redis"}, "does not use the addresses"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, errOut, code := shopSays(t, shop, ownService(shop, "sql-atomic",
				append(slices.Clone(tt.args), "--fault", "replicas", "--lanes", "1")...)...)
			if code != cli.ExitFailed || !strings.Contains(errOut, tt.want) {
				t.Errorf("exit %d, want %d and %q:\n%s", code, cli.ExitFailed, tt.want, errOut)
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
		"no serve":      {[]string{"lab", "--no-color", "--request", "POST /buy"}, "--request needs --serve"},
		"no serve, TTL": {[]string{"lab", "--lock-ttl", "1s", "--mode", "nobody"}, "--lock-ttl needs --serve"},
		"no serve, env": {[]string{"lab", "--env", "A=b", "--mode", "nobody"}, "--env needs --serve"},
		"a short TTL":   {ownService("shop", "lua-lock", "--lock-ttl", "1ns"), "--lock-ttl \"1ns\": want 1ms to 1m"},
		"no request":    {[]string{"lab", "--serve", "app {{port}} {{redis}}"}, "--request"},
		"twice":         {ownService("shop", "lua-lock", "--lanes", "1", "--request", "POST /b"), "--request is given twice"},
		"a mode":        {ownService("shop", "lua-lock", "--mode", "lua-lock"), "--mode is about lastitem's own modes"},
		"a bad status":  {ownService("shop", "lua-lock", "--ok", "2xx"), "--ok \"2xx\""},
		"a bad TTL":     {ownService("shop", "lua-lock", "--lock-ttl", "soon"), "--lock-ttl"},
		"a seed alone":  {[]string{"lab", "--seed", "7"}, "--seed needs --random or --for"},
		"no command":    {ownService("shop", "lua-lock", "--setup-cmd", " "), "want a command"},
		"no time":       {ownService("shop", "lua-lock", "--ready-within", "0s"), "--ready-within 0s: want more than 0"},
		"no rest":       {ownService("shop", "lua-lock", "--settle", "0s"), "--settle 0s: want more than 0"},
		"no such file":  {ownService("shop", "lua-lock", "--setup-sql", "@no/such.sql"), "--setup-sql"},
		"allowed what":  {ownService("shop", "lua-lock", "--allow-untested", "nothing"), "--allow-untested \"nothing\""},
		"a key or none": {ownService("shop", "lua-lock", "--key-header", "K", "--repeat-without-key"),
			"the requests carry a key"},
		"not its own":    {ownService("shop", "lua-lock", "--fault", "clock-jump"), "needs lastitem's own tables"},
		"retry, no key":  {ownService("shop", "lua-lock", "--fault", "retry"), "--key-header"},
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
		"as claimed": {faultlab.Result{Schedules: 2, Judged: 2, Cells: []faultlab.Cell{{Found: "."}}}, cli.ExitOK,
			cli.ExitOK},
		"a letter": {faultlab.Result{Schedules: 2, Judged: 2, Cells: []faultlab.Cell{{Found: "O", Wrong: wrong}}},
			cli.ExitFailed, cli.ExitFailed},
		"untested": {faultlab.Result{Schedules: 2, Judged: 2, Cells: []faultlab.Cell{{Found: "."},
			{Fault: "threads", Found: "?"}}}, cli.ExitOK, exitInconclusive},
		"allowed": {faultlab.Result{Schedules: 2, Judged: 2, Cells: []faultlab.Cell{{Found: "."},
			{Fault: "retry", Found: "?"}}}, cli.ExitOK, cli.ExitOK},
		"both": {faultlab.Result{Schedules: 2, Judged: 2, Cells: []faultlab.Cell{{Found: "O"},
			{Fault: "threads", Found: "?"}}}, cli.ExitOK, cli.ExitFailed},
		"a server did not answer": {faultlab.Result{Schedules: 2, Judged: 1, Cells: []faultlab.Cell{{Found: ".",
			Undecided: wrong}}}, exitInconclusive, cli.ExitOK},
		"one judged": {faultlab.Result{Schedules: 2, Judged: 1, Cells: []faultlab.Cell{{Found: ".", Wrong: wrong}}},
			cli.ExitFailed, cli.ExitFailed},
		"none": {faultlab.Result{Schedules: 2, Cells: []faultlab.Cell{{Wrong: wrong}}}, exitInconclusive, exitInconclusive},
	} {
		code := func(err error) int {
			var e *cli.Error
			if errors.As(err, &e) {
				return e.Code
			}
			return cli.ExitOK
		}
		if ours, serve := code(asClaimed(&tt.res)), code(unbroken(&tt.res, []string{"retry"})); ours != tt.ours ||
			serve != tt.serve {
			t.Errorf("%s: exit %d for our modes and %d for a service, want %d and %d", name, ours, serve, tt.ours, tt.serve)
		}
	}
}

// A file of statements ends each with a semicolon at the end of a line.
func TestStatements(t *testing.T) {
	t.Parallel()
	all, err := statements("@" + fileOf(t, "CREATE TABLE a (\n x INT\n);\r\nINSERT INTO a VALUES (';');\n\nINSERT INTO "+
		"a VALUES (2)\n"))
	if err != nil || len(all) != 3 || !strings.HasPrefix(all[1], "INSERT INTO a VALUES (';')") {
		t.Errorf("statements = %q, %v, want three", all, err)
	}
}
