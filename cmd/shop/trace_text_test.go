package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/stock"
	"lastitem/internal/wire"
)

// at is a time so many microseconds after the beginning.
func at(us int) time.Time { return time.UnixMicro(1_700_000_000_000_000 + int64(us)) }

// aTrace is made of calls and views by hand: a script, a command that the server says nothing of, and the same to two nodes.
func aTrace() trace {
	const owner, sha = "27c9ba3e-dcf7-4a1e-af64-fa2ca7070ddc", "6b3179e1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	call := func(server, text string, sent, answered int) wire.Call {
		return wire.Call{Server: server, Text: text, Sent: at(sent), Answered: at(answered)}
	}
	steps := join(
		[]wire.Call{
			call("redis", "EVALSHA "+sha+" 1 lock {101#3} "+owner, 10, 30), call("redis", "GET stock", 40, 60), call("redis", "GET stock", 70, 90),
			call("redis 2", "SET a 1", 100, 120), call("redis 1", "SET a 1", 101, 140), call("sql", "SELECT \xff 1", 150, 170),
		},
		[]seen{
			{server: "redis", at: at(15), ran: 5 * time.Microsecond, text: "EVALSHA " + sha + " 1 lock {101#3} " + owner},
			{server: "redis", at: at(16), ran: -1, text: "DEL lock", script: true},
			{server: "redis", at: at(45), ran: 1, text: "PING"}, {server: "redis", at: at(46), ran: -1, text: "HGET of another", script: true},
			{server: "redis", at: at(45), ran: 2 * time.Microsecond, text: "GET stock"},
			{server: "redis", at: at(80), ran: 3 * time.Microsecond, text: "GET stock"},
			{server: "sql", at: at(155), ran: 9 * time.Microsecond, text: "SELECT \u00ff 1"},
		}, at(0))
	steps[0].about = "-- Deletes the lock."
	return trace{
		deduction: deduction{mode: stock.Mode{Name: "some", Needs: []stock.Backend{stock.NeedEtcd}}, store: "redis", quantity: 2},
		target:    "/deduct_stock/some", status: 200, took: 200 * time.Microsecond, steps: steps,
		answer: `{"order_id":"088b9a0a-1e8e-479a-80d1-73fc62fdfcb5","fence":16}`,
	}
}

func TestTraceTable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	tr := &tracer{kinds: map[string]string{"redis": "redis-server 7"}}
	if err := printTrace(&b, tr, aTrace(), "en"); err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(b.String(), "\n\n")
	table, _, _ = strings.Cut(table, "\n\n")
	want := strings.Trim(`
#  sent µs  took µs  seen µs  ran µs  server   command
         0      200                   client   POST /deduct_stock/some
1       10       20       15       5  redis    EVALSHA 6b3179e1… 1 lock {101#3} 27c9ba3e-dcf7-4a1e-af64-fa2ca7070ddc
                                                 -- Deletes the lock.
                          16                     DEL lock
2       40       20       45       2  redis    GET stock
3       70       20       80       3  redis    GET stock
4      100       20        –       –  redis 2  SET a 1
5      101       39        –       –  redis 1  SET a 1
6      150       20      155       9  sql      SELECT `+"\xff"+` 1
       200                            client   200 {"order_id":"088b9a0a-1e8e-479a-80d1-73fc62fdfcb5","fence":16}
`, "\n")
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	b.Reset()
	if err := printTrace(&b, tr, aTrace(), "zh"); err != nil || !strings.HasPrefix(b.String(), "some：单副本、无竞争，扣减 2 件，库存在 redis\n") {
		t.Errorf("in Chinese: %v\n%s", err, &b)
	}
}

func TestTraceStable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := printStable(&b, aTrace()); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
  #  server       command
     client       POST /deduct_stock/some
  1  redis        EVALSHA <script> 1 lock {101#<i>} <owner>
                    -- Deletes the lock.
                    DEL lock
2-3  redis        GET stock
  4  redis nodes  SET a 1
  5  sql          SELECT `+"\xff"+` 1
     client       200 {"order_id":"<order id>","fence":<fence>}
`, "\n")
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("stable (-want +got):\n%s", diff)
	}
}

func TestStabilizer(t *testing.T) {
	t.Parallel()
	tr := aTrace()
	s := stabilize(tr)
	for text, want := range map[string]string{
		"INSERT ... ('088b9a0a-1e8e-479a-80d1-73fc62fdfcb5', 101, 16, 1795195653436145)": "INSERT ... ('<order id>', 101, <fence>, <now>)",
		`{"Index":16,"Session":"088b9a0a-1e8e-479a-80d1-73fc62fdfcb6"}`:                  `{"Index":<fence>,"Session":"<owner>"}`,
		"SET lock AH4DTUWMQ3LB6ID4.a.16.2500 PX 10000":                                   "SET lock <token> PX 10000",
		"KV.Put key:\"a\" lease:7587 mod_revision:16 create_revision:0":                  "KV.Put key:\"a\" lease:<lease> mod_revision:<revision> create_revision:0",
		"delete /lock/n-0000000003":                                                      "delete /lock/n-<rank>",
		"/v3/Some (17 bytes)":                                                            "/v3/Some",
		`{"quantity":16,"remaining":16}`:                                                 `{"quantity":16,"remaining":16}`,
	} {
		if got := s.text(text); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
	tr.mode.Needs = []stock.Backend{stock.NeedRedis} // its fences start at the same number each time
	if got := stabilize(tr).text(`"fence":16}`); got != `"fence":16}` {
		t.Errorf("a fence of Redis becomes %s", got)
	}
}

// testTrace traces on embedded servers, where one side is all there is to see.
func testTrace(t *testing.T, shop string) {
	out, err := exec.CommandContext(t.Context(), shop, "trace", "idempotent", "--backend", "embedded", "--json", "--quantity", "3").Output()
	if err != nil {
		t.Fatalf("shop trace: %v\n%s", err, out)
	}
	var got struct {
		Status  int               `json:"status"`
		Servers map[string]string `json:"servers"`
		Steps   []stepJSON        `json:"steps"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if got.Status != 200 || !strings.Contains(got.Servers["sql"], "SQLite") || !strings.Contains(got.Servers["redis"], "miniredis") {
		t.Errorf("%d, %v", got.Status, got.Servers)
	}
	var sql []string
	for _, s := range got.Steps {
		if s.SentUS == nil || s.TookUS == nil || s.SeenUS != nil || s.RanUS != nil {
			t.Errorf("%s: want the times of the client's side alone", s.Command)
		}
		if s.Server == "sql" {
			words := strings.Fields(s.Command)
			sql = append(sql, strings.Join(words[:min(2, len(words))], " "))
		}
	}
	for mode, want := range map[string]string{
		"etcd":        "there is no embedded etcd: leave out --backend embedded\n",
		"mutex-in-tx": "its lesson needs InnoDB: the embedded database is SQLite: leave out --backend embedded\n",
		"kafka":       "'shop demo --mode kafka' runs it",
	} {
		cmd := exec.CommandContext(t.Context(), shop, "trace", mode, "--backend", "embedded")
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(string(out), want) {
			t.Errorf("shop trace %s: exit %d, %s; want exit %d, %q", mode, cmd.ProcessState.ExitCode(), out, exitFailed, want)
		}
	}
	want := []string{"BEGIN IMMEDIATE", "INSERT OR", "UPDATE product_stock", "INSERT INTO", "UPDATE idempotent_log", "COMMIT"}
	if diff := cmp.Diff(want, sql); diff != "" {
		t.Errorf("statements (-want +got):\n%s", diff)
	}
}
