package postmortem

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/judge"
	"lastitem/target"
	"lastitem/testkit"
	"lastitem/testkit/doctest"
)

// The logs in testdata are of modes that ran on three replicas, with other names: flash of unsafe-sql, tickets of
// redis-decr while a replica was killed, shoes of sql-atomic whose client sent some requests twice, written by the
// listener for Locust in docs/postmortem.md, and fine of sql-atomic.

// edit says what to take from a file of testdata: without columns, without rows (of 1, the first), and with lines more.
type edit struct {
	file    string
	columns []string
	rows    []int
	more    string
}

func recorded(file string, columns ...string) edit { return edit{file: file, columns: columns} }

// write writes the file as edited and returns its path; "" = there is none.
func (e edit) write(t *testing.T) string {
	t.Helper()
	if e.file == "" && e.more == "" {
		return ""
	}
	path := filepath.Join(t.TempDir(), "log")
	var b strings.Builder
	if e.file != "" {
		said, err := os.ReadFile(filepath.Join("testdata", e.file))
		testkit.Must(t, err)
		b.WriteString(e.cut(t, string(said)))
	}
	b.WriteString(e.more)
	testkit.Must(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

func (e edit) cut(t *testing.T, said string) string {
	t.Helper()
	if strings.HasPrefix(said, "{") {
		return said
	}
	all, err := csv.NewReader(strings.NewReader(said)).ReadAll()
	testkit.Must(t, err)
	heads := slices.Clone(all[0])
	var b strings.Builder
	w := csv.NewWriter(&b)
	for i, fields := range all {
		if slices.Contains(e.rows, i) {
			continue
		}
		var kept []string
		for k, v := range fields {
			if !slices.Contains(e.columns, heads[k]) {
				kept = append(kept, v)
			}
		}
		testkit.Must(t, w.Write(kept))
	}
	w.Flush()
	return b.String()
}

func number(n int64) *int64 { return &n }

// options are those that every case has.
func options() Options {
	o := Options{Zone: time.UTC}
	o.Answers = target.Foreign{OK: target.Meaning{Statuses: []int{200, 201}},
		Refused:  target.Meaning{Statuses: []int{409}},
		Declined: target.Meaning{Statuses: []int{429}}}
	return o
}

// claim is a row of the table in docs/postmortem.md: what the files hold, and what may then be said.
type claim struct {
	name                   string
	orders, stock, history edit
	o                      Options
	want                   string   // the verdict, and what was found
	says, not              []string // in the report, in since, in the patterns; and not there
}

var twenty, none = number(20), number(0)

var claims = []claim{
	{name: "orders", orders: recorded("flash-orders.csv", "stock_left"), o: Options{Stock: twenty}, want: "BROKEN O",
		says: []string{"oversold 31", "04:47:19.460Z: order FS-70021 is the first beyond the 20 units",
			"inconclusive: a lost update or a race", "which units were sold twice", "double charges"},
		not: []string{"unsafe-sql", "reserve-check"}},
	{name: "fewer orders than stock", orders: recorded("fine-orders.csv"), o: Options{Stock: twenty}, want: "INCONCLUSIVE",
		says: []string{"nobody knows how many units were left at the end"}},
	{name: "orders without stock", orders: recorded("flash-orders.csv"), want: "INCONCLUSIVE",
		says: []string{"nobody knows how many units there were at the start"}},
	{name: "remaining", orders: recorded("flash-orders.csv"), o: Options{Stock: twenty}, want: "BROKEN O",
		says: []string{"unit 12 was sold 8 times", "order FS-70011 is the first of a unit that another has, FS-70010"}},
	{name: "stock after, zero", orders: recorded("flash-orders.csv", "stock_left"), o: Options{Stock: twenty,
		StockAfter: none},
		want: "BROKEN O", says: []string{"lost updates 31", "unsafe-sql"}, not: []string{"inconclusive", "reserve-check"}},
	{name: "stock after, below zero", orders: recorded("flash-orders.csv", "stock_left"),
		o: Options{Stock: twenty, StockAfter: number(-31)}, want: "BROKEN O", says: []string{"lost updates 0",
			"reserve-check"},
		not: []string{"inconclusive", "unsafe-sql"}},
	{name: "stock log", orders: recorded("flash-orders.csv", "stock_left"), stock: recorded("flash-stock.csv"),
		want: "BROKEN O",
		says: []string{"between 2026-11-30 04:47:19.348Z and 2026-11-30 04:47:19.404Z: 31 units more in stock"}},
	{name: "stock log, a leak", orders: recorded("tickets-orders.csv"), stock: recorded("tickets-stock.csv"),
		want: "BROKEN L", says: []string{"leaked 2", "and 2026-11-30 04:08:12.963Z: 2 units fewer in stock", "redis-decr"}},
	{name: "stock log that ends early", orders: recorded("fine-orders.csv"), stock: edit{file: "fine-stock.csv",
		rows: []int{7}},
		want: "INCONCLUSIVE", says: []string{"the stock log does not begin before the first order, or ends before a " +
			"second after the last"}},
	{name: "stock log that rises", orders: recorded("fine-orders.csv"), stock: edit{more: "time,stock\n1796014000,15\n" +
		"1796014044.12,20\n1796014100,0\n"}, want: "INCONCLUSIVE", says: []string{"the stock log rises by 5"}},
	{name: "never restocked", orders: recorded("fine-orders.csv", "remaining"),
		stock: edit{more: "time,stock\n1796014000,15\n" +
			"1796014044.12,20\n1796014100,0\n"}, o: Options{NeverRestocked: true}, want: "BROKEN O",
		says: []string{"oversold 5"}},
	{name: "added", orders: recorded("fine-orders.csv"), stock: edit{more: "time,stock,added\n1796014000,15,\n" +
		"1796014044.12,20,5\n1796014100,0,\n"}, want: "EXACT"},
	{name: "key", orders: recorded("shoes-orders.csv"), want: "BROKEN D", says: []string{"double orders 2",
		"order ORD000887 is the first second one for a key, after ORD000882", "idempotent"}},
	{name: "no key", orders: recorded("shoes-orders.csv", "request_id"), o: Options{Stock: number(25), StockAfter: none},
		want: "EXACT", says: []string{"double charges: the orders have no idempotency key"}},
	{name: "states", orders: edit{more: "id,status\n1,PAID\n2,PAID\n3,CANCELLED\n"}, o: Options{Stock: number(2),
		StockAfter: none}, want: "INCONCLUSIVE", says: []string{"1 order is CANCELLED, and without it the books add up"}},
	{name: "states that count", orders: edit{more: "id,status\n1,PAID\n2,PAID\n3,CANCELLED\n"},
		o: Options{Stock: number(2),
			StockAfter: none, States: []string{"PAID"}}, want: "EXACT"},
	{name: "rows of one order", orders: edit{file: "fine-orders.csv", columns: []string{"remaining"},
		more: "R301,1,2026-11-30T04:01:54.866051Z\n"}, o: Options{Stock: twenty, StockAfter: none}, want: "INCONCLUSIVE",
		says: []string{"1 row repeats the id of an order"}},
	{name: "history", history: recorded("flash.jtl"), o: Options{Stock: twenty}, want: "BROKEN O", says: []string{
		"oversold 31", "51 ok, 9 sold out", "inconclusive", "lost acknowledged orders and unrequested orders cannot be " +
			"found"}},
	{name: "history, stock after", history: recorded("flash.jtl"), o: Options{Stock: twenty, StockAfter: none},
		want: "BROKEN O", says: []string{"lost updates 31", "unsafe-sql"}},
	{name: "history and orders", orders: recorded("tickets-orders.csv"), stock: recorded("tickets-stock.csv"),
		history: recorded("tickets-gateway.jsonl"), want: "BROKEN L", says: []string{"38 ok, 22 sold out, 0 declined, 10 " +
			"unknown",
			"22 requests were refused because of the leaked units"}},
	{name: "acknowledged orders", orders: edit{file: "fine-orders.csv", columns: []string{"remaining"}, rows: []int{7, 8,
		9}},
		stock: recorded("fine-stock.csv"), history: recorded("fine-history.csv"), want: "BROKEN LA", says: []string{
			"lost orders 3", "is the first that was answered and is not there"}},
	{name: "orders of a part", orders: edit{file: "fine-orders.csv", rows: []int{11, 12, 13, 14, 15, 16, 17, 18, 19, 20}},
		stock: recorded("fine-stock.csv"), want: "INCONCLUSIVE", says: []string{"10 orders were read, and others are " +
			"missing"}},
	{name: "both times", orders: recorded("fine-orders.csv"), stock: recorded("fine-stock.csv"),
		history: recorded("fine-history.csv"), want: "EXACT", not: []string{"refusals, and which requests overlapped"}},
	{name: "refused in stock", orders: recorded("fine-orders.csv", "remaining"), o: Options{Stock: number(30),
		StockAfter: number(10), NeverRestocked: true}, history: recorded("fine-history.csv"), want: "BROKEN", says: []string{
		"20 requests were refused though in stock"}},
	{name: "one time", orders: recorded("fine-orders.csv", "remaining"), o: Options{Stock: number(30),
		StockAfter: number(10)},
		history: recorded("fine-history.csv", "answered"), want: "EXACT",
		says: []string{"refusals, and which requests overlapped"}},
}

// said is all that a result says.
func said(r Result) string {
	all := []string{r.Report.Text("en")}
	for _, s := range r.Since {
		all = append(all, s.Said)
	}
	for _, p := range r.Patterns {
		all = append(all, p.Said, p.Mode, p.Stops, p.How)
	}
	return strings.Join(all, "\n")
}

// TestClaims: of what the files hold, exactly that is said which they show; docs/postmortem.md has the rows.
func TestClaims(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, c := range claims {
		names[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := options()
			o.Orders, o.StockLog, o.History = c.orders.write(t), c.stock.write(t), c.history.write(t)
			o.Stock, o.StockAfter, o.NeverRestocked, o.States = c.o.Stock, c.o.StockAfter, c.o.NeverRestocked, c.o.States
			logs, err := Read(o)
			testkit.Must(t, err)
			r := logs.Judge()
			text := said(r)
			testkit.Is(t, strings.TrimSpace(string(r.Verdict)+" "+r.Report.Found), c.want, "it says %s;", text)
			for _, want := range c.says {
				if !strings.Contains(text, want) {
					t.Errorf("it says\n%s\nwant %q", text, want)
				}
			}
			for _, not := range c.not {
				if strings.Contains(text, not) {
					t.Errorf("it says\n%s\nwant no %q", text, not)
				}
			}
		})
	}
	told := map[string]bool{}
	for line := range strings.Lines(doctest.Read(t, "docs/postmortem.md")) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 {
			continue
		}
		for name := range strings.SplitSeq(cells[4], ";") {
			if name = strings.TrimSpace(name); strings.HasPrefix(name, "`") {
				told[strings.Trim(name, "`")] = true
			}
		}
	}
	if diff := cmp.Diff(names, told); diff != "" {
		t.Errorf("the rows of docs/postmortem.md are others (-here +there):\n%s", diff)
	}
}

// TestMistakes: an error names the file, the line, the column and what is expected.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		orders, stock, history string
		columns                map[string]string
		want                   string
	}{
		{orders: "id,qty,created_at\n1,1,2026-11-11 20:00:00\n2,1,11.11.2026\n", want: `log, line 3, column created_at: ` +
			`"11.11.2026"; want a time: RFC 3339`},
		{orders: "id;qty\n1;1\n2;two\n", want: `line 3, column qty: "two"; want a number of units from 1`},
		{orders: "id,qty\n1,0\n", want: `line 2, column qty: "0"; want a number of units from 1`},
		{orders: "id,qty\n1,1\n2\n", want: "record on line 3: wrong number of fields"},
		{orders: "{\"id\":1}\n{\"id\":\n", want: "log, line 2: want a JSON object"},
		{orders: "{\"id\":1}\n\n{\"id\":2,\"left\":\"few\"}\n", want: `line 3, column left: "few"; want a number of units`},
		{orders: "[{\"id\":1}]", want: "want an object in each line, as jq"},
		{orders: "<testResults>", want: "want CSV, which JMeter writes with"},
		{orders: " ", want: "is empty: want CSV"},
		{orders: "id,sku\n1,A\n2,B\n", want: "2 values of product: A, B; say which is meant by --product"},
		{orders: "id\n1\n", columns: map[string]string{"order": "nr"}, want: "--columns order=nr: no file has it"},
		{stock: "time,level\n1796014000,5\n", want: "has no column stock: --columns stock=NAME names it, one of level"},
		{history: "sent,outcome\n1796014000,perhaps\n", want: `column outcome: "perhaps"; want an HTTP status, or ok`},
		{history: "sent,elapsed,outcome\n1796014000,soon,ok\n", want: `column elapsed: "soon"; want milliseconds`},
		{history: "sent,answered,outcome\n1796014000,later,ok\n", want: `column answered: "later"; want a time`},
		{history: "timeStamp,label,responseCode\n1796011313000,login,200\n1796011313000,buy,200\n",
			want: "2 values of label: buy, login"},
	} {
		o := options()
		o.Orders, o.StockLog, o.History = edit{more: c.orders}.write(t), edit{more: c.stock}.write(t),
			edit{more: c.history}.write(t)
		o.Columns = c.columns
		if _, err := Read(o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Read(%q) says %v, want %q", c.orders+c.stock+c.history, err, c.want)
		}
	}
}

// TestTimes: every way to write a moment is that moment.
func TestTimes(t *testing.T) {
	t.Parallel()
	moment := time.Date(2026, 11, 11, 12, 0, 0, 250_000_000, time.UTC)
	shanghai := time.FixedZone("", 8*3600)
	for _, said := range []string{"2026-11-11T12:00:00.25Z", "2026-11-11T20:00:00.250+08:00", "2026-11-11 20:00:00.250",
		"2026/11/11 20:00:00.250", "2026-11-11T20:00:00.25", "2026-11-11 12:00:00.25Z", "1794398400.25", "1794398400250",
		"1794398400250000", "1794398400250000000"} {
		if at, ok := timeOf(said, shanghai); !ok || !at.Equal(moment) {
			t.Errorf("timeOf(%q) = %v, %v, want %v", said, at, ok, moment)
		}
	}
	for _, said := range []string{"", "yesterday", "12", "2026-11-11", "20:00:00"} {
		if at, ok := timeOf(said, shanghai); ok {
			t.Errorf("timeOf(%q) = %v, want none", said, at)
		}
	}
}

// TestFiles: what was read is told, and columns without a meaning are named; rows of other products are left out.
func TestFiles(t *testing.T) {
	t.Parallel()
	o := options()
	o.Orders = edit{more: "\ufeffNr;SKU;note;at\n1;A;x;2026-11-11T20:00:00Z\n2;B;y;2026-11-11T20:00:01Z\n"}.write(t)
	o.Columns, o.Product = map[string]string{"order": "Nr"}, "A"
	o.Stock, o.StockAfter = number(1), none
	logs, err := Read(o)
	testkit.Must(t, err)
	at := time.Date(2026, 11, 11, 20, 0, 0, 0, time.UTC)
	want := []File{{Name: o.Orders, Rows: 2, First: at, Last: at, Skipped: 1,
		Columns: []string{"order=nr", "time=at", "product=sku"}, Unused: []string{"note"}}}
	if diff := cmp.Diff(want, logs.Judge().Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	testkit.Is(t, logs.Judge().Verdict, judge.Exact, "the verdict")
}

// TestWords: a word of an outcome means what an expression for bodies says of it; else what it says.
func TestWords(t *testing.T) {
	t.Parallel()
	f := options().Answers
	f.Refused.Body, f.OrderID = "LEER|STOCK", "/data/code"
	for _, c := range []struct {
		said, body string
		want       judge.Outcome
		order      string
	}{
		{"LEER", "", judge.Refused, ""}, {"Sold Out", "", judge.Refused, ""}, {"sold", "", judge.OK, ""},
		{"200", `{"data":{"code":"X7"}}`, judge.OK, "X7"}, {"409", "INSUFFICIENT_STOCK", judge.Refused, ""},
		{"500", "", judge.Unknown, ""}, {"429", "", judge.Declined, ""}, {"busy", "", judge.Declined, ""},
		{"Non HTTP response code: java.net.SocketException", "", judge.Unknown, ""}, {"", "", judge.Unknown, ""},
	} {
		a, ok := answerOf(c.said, c.body, &f)
		if !ok || a.Outcome != c.want || a.OrderID != c.order {
			t.Errorf("answerOf(%q, %q) = %s, order %q, %v; want %s, %q", c.said, c.body, a.Outcome, a.OrderID, ok, c.want,
				c.order)
		}
	}
	_, ok := answerOf("perhaps", "", &f)
	testkit.Is(t, ok, false, "a word that says nothing")
}
