package trace

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/stock"
	"lastitem/stack/wire"
	"lastitem/testkit"
)

// at is a time so many microseconds after the beginning.
func at(us int) time.Time { return time.UnixMicro(1_700_000_000_000_000 + int64(us)) }

// aTrace is made of calls and views by hand: a script, a command that the server says nothing of, and the same to two
// nodes.
func aTrace() Trace {
	const owner, sha = "27c9ba3e-dcf7-4a1e-af64-fa2ca7070ddc", "6b3179e1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	call := func(server, text string, sent, answered int) wire.Call {
		return wire.Call{Server: server, Text: text, Sent: at(sent), Answered: at(answered)}
	}
	steps := join(
		[]wire.Call{
			call("redis", "EVALSHA "+sha+" 1 lock {101#3} "+owner, 10, 30), call("redis", "GET stock", 40, 60),
			call("redis", "GET stock", 70, 90),
			call("redis 2", "SET a 1", 100, 120), call("redis 1", "SET a 1", 101, 140), call("sql", "SELECT \xff 1", 150, 170),
		},
		[]observed{
			{server: "redis", at: at(15), ran: 5 * time.Microsecond, text: "EVALSHA " + sha + " 1 lock {101#3} " + owner},
			{server: "redis", at: at(16), ran: Unknown, text: "DEL lock", script: true},
			{server: "redis", at: at(45), ran: 1, text: "PING"}, {server: "redis", at: at(46), ran: Unknown,
				text: "HGET of another", script: true},
			{server: "redis", at: at(45), ran: 2 * time.Microsecond, text: "GET stock"},
			{server: "redis", at: at(80), ran: 3 * time.Microsecond, text: "GET stock"},
			{server: "sql", at: at(155), ran: 9 * time.Microsecond, text: "SELECT \u00ff 1"},
		}, at(0))
	steps[0].About = "-- Deletes the lock."
	return Trace{
		Deduction: Deduction{Mode: stock.Mode{Name: "some", Needs: []stock.Backend{stock.NeedEtcd}}, Store: "redis",
			Quantity: 2},
		Target: "/deduct_stock/some", Status: 200, Took: 200 * time.Microsecond, Steps: steps,
		Answer: `{"order_id":"088b9a0a-1e8e-479a-80d1-73fc62fdfcb5","fence":16}`,
	}
}

func TestTraceTable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	tr := &Tracer{kinds: map[string]string{"redis": "redis-server 7"}}
	testkit.Must(t, tr.WriteTable(&b, aTrace(), "en"))
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
	testkit.Same(t, table, want, "table")
	b.Reset()
	if err := tr.WriteTable(&b, aTrace(), "zh"); err != nil || !strings.HasPrefix(b.String(),
		"some：单副本、无竞争，扣减 2 件，库存在 redis\n") {
		t.Errorf("in Chinese: %v\n%s", err, &b)
	}
}

func TestTraceStable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	testkit.Must(t, aTrace().WriteStable(&b))
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
	testkit.Same(t, b.String(), want, "stable")
}

// A poll stands where it was answered, even one that was sent before the request.
func TestTraceOfAPoll(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	r.Add(wire.Call{Text: "GET /v1/kv/lock?index=7", Poll: true, Sent: at(-500), Answered: at(30)})
	r.Add(wire.Call{Text: "PUT /v1/kv/lock", Sent: at(10), Answered: at(35)})
	steps := join(r.Between(at(0), at(1000)), nil, at(0))
	if at := steps[1].at(); at != 30*time.Microsecond {
		t.Errorf("the poll stands at %v, want 30µs", at)
	}
	if sent := stepsJSON(steps)[1].SentUS; sent == nil || *sent != -500 {
		t.Errorf("JSON says that the poll was sent at %v, want -500", sent)
	}
}

// A trace of Redlock ends when every node is released, perhaps after the answer; another trace ends with the last
// answer to an earlier command.
func TestSettle(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // looks once
	began := time.Now()
	update, later := wire.Call{Text: "UPDATE", Sent: began, Answered: began}, wire.Call{Text: "UPDATE", Sent: began.Add(1)}
	var redlock []wire.Call // every node is asked, and then released
	for _, text := range []string{"SET lock token NX", "EVALSHA release"} {
		for node := range redlockNodes {
			at := began.Add(time.Duration(len(redlock)))
			redlock = append(redlock, wire.Call{Server: nodeName(node), Text: text, Sent: at, Answered: at})
		}
	}
	unreleased := redlock[:len(redlock)-1]
	unasked := slices.DeleteFunc(slices.Clone(redlock), func(c wire.Call) bool { return c.Server == nodeName(4) })
	for _, c := range []struct {
		name     string
		needs    []stock.Backend
		calls    []wire.Call
		complete bool
	}{
		{"sql", []stock.Backend{stock.NeedSQL}, []wire.Call{update, later}, true},
		{"sql, not answered", []stock.Backend{stock.NeedSQL}, []wire.Call{{Text: "COMMIT", Sent: began}}, false},
		{"redlock", []stock.Backend{stock.NeedRedlock}, redlock, true},
		{"redlock, one node not released", []stock.Backend{stock.NeedRedlock}, unreleased, false},
		{"redlock, one node not asked yet", []stock.Backend{stock.NeedRedlock}, unasked, false},
	} {
		var tr Tracer
		for _, call := range c.calls {
			tr.recorder.Add(call)
		}
		end, err := tr.settle(ctx, stock.Mode{Needs: c.needs}, began, began)
		if (err == nil) != c.complete {
			t.Errorf("%s: %v, want complete = %t", c.name, err, c.complete)
		}
		if later := !slices.Equal(c.needs, []stock.Backend{stock.NeedSQL}); err == nil && later != end.After(began) {
			t.Errorf("%s: ends %v after the answer", c.name, end.Sub(began))
		}
	}
}

func TestStabilizer(t *testing.T) {
	t.Parallel()
	tr := aTrace()
	s := stabilize(tr)
	for text, want := range map[string]string{
		"INSERT ... ('088b9a0a-1e8e-479a-80d1-73fc62fdfcb5', 101, 16, 1795195653436145)": "INSERT ... ('<order id>', 101, " +
			"<fence>, <now>)",
		`{"Index":16,"Session":"088b9a0a-1e8e-479a-80d1-73fc62fdfcb6"}`:   `{"Index":<fence>,"Session":"<owner>"}`,
		"SET lock v2-2JEQ4YPVWCW36PIL-18376-db%2Edc-1.2.16.2500 PX 10000": "SET lock <token> PX 10000",
		"SET lock AH4DTUWMQ3LB6ID4.a.16.2500 PX 10000":                    "SET lock <token> PX 10000",
		"KV.Put key:\"a\" lease:7587 mod_revision:16 create_revision:0": "KV.Put key:\"a\" lease:<lease> " +
			"mod_revision:<revision> create_revision:0",
		"WHERE id = 101 AND run = 1795195653436145": "WHERE id = 101 AND run = <run>",
		"delete /lock/n-0000000003":                 "delete /lock/n-<rank>",
		"/v3/Some (17 bytes)":                       "/v3/Some",
		`{"quantity":16,"remaining":16}`:            `{"quantity":16,"remaining":16}`,
	} {
		if got := s.text(text); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
	tr.Mode.Needs = []stock.Backend{stock.NeedRedis} // its fences start at the same number each time
	if got := stabilize(tr).text(`"fence":16}`); got != `"fence":16}` {
		t.Errorf("a fence of Redis becomes %s", got)
	}
}

func TestAddDurations(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	many := slices.Repeat([]string{"k"}, 40)
	all := []observed{
		{ran: Unknown, words: []string{"GET", "before"}}, // its entry went with SLOWLOG RESET
		{ran: Unknown, words: []string{"GET", "stock"}},
		{ran: Unknown, words: []string{"GET", "stock"}, script: true},
		{ran: Unknown, words: []string{"SET", long, "1"}},
		{ran: Unknown, words: append([]string{"DEL"}, many...)},
		{ran: Unknown, words: []string{"GET", "stock"}},
		{ran: Unknown, words: []string{"GET"}},
	}
	addDurations(all, []redis.SlowLog{
		{Duration: 1, Args: []string{"SLOWLOG", "RESET"}},
		{Duration: 2, Args: []string{"GET", "stock"}},
		{Duration: 3, Args: []string{"SET", long[:128] + "... (72 more bytes)", "1"}},
		{Duration: 4, Args: append(append([]string{"DEL"}, many[:30]...), "... (10 more arguments)")},
		{Duration: 5, Args: []string{"GET", "stock"}},
	})
	want := []time.Duration{Unknown, 2, Unknown, 3, 4, 5, Unknown}
	for i, o := range all {
		testkit.Is(t, o.ran, want[i], "%.20s: ran", o.words)
	}
}
