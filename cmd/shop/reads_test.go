package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/cli"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// envOrders is how many orders TestReadersAreCheap reads; 'make reads' sets it.
const envOrders = "READS_TEST_ORDERS"

// mostMemory is what eight readers at once may add to a replica.
const mostMemory = 50 << 20

// TestReadersAreCheap lets eight readers at once page through the orders of a product, in Redis and in MySQL, then
// audit it, and measures what that adds to the memory of the replica, a process of its own. In MySQL as many
// reservations have expired, and a tenth as many are held.
func TestReadersAreCheap(t *testing.T) {
	testenv.Slow(t, "reads thousands of orders many times")
	if _, err := os.Stat("/proc/self/status"); err != nil {
		testkit.Missing(t, "/proc", err) // memory is read there
	}
	orders, err := strconv.Atoi(cmp.Or(os.Getenv(envOrders), "15000"))
	testkit.Must(t, err)
	testenv.Installed(t, stack.Redis, stack.MySQL, stack.Nginx)
	running := startStack(t, stack.Options{Replicas: 1, Backend: stack.Local,
		Only: []string{stack.Redis, stack.MySQL}})
	base, pid := running.Replicas[0].URL, running.Replicas[0].PID
	const inRedis, inSQL, reserved = 101, 102, 103
	for _, product := range []int64{inRedis, inSQL, reserved} {
		c, err := loadtest.NewControl(base, running.Token)
		testkit.Must(t, err)
		testkit.Must(t, c.SetStock(t.Context(), product, api.SetStock{Stock: int64(orders) + 7}))
		c.Close()
	}
	pushOrders(t, running.Redis.URL, inRedis, orders)
	insertOrders(t, running.SQL.URL, inSQL, orders)
	insertHolds(t, running.SQL.URL, reserved, orders)
	readHolds(t, base, running.Token, reserved, orders)
	before := memory(t, pid, "VmRSS:")
	for what, read := range map[string]func(product int64) error{
		"all pages": func(product int64) error { return readAll(t, base, product, orders) },
		"the audit": func(product int64) error { return auditOnce(t.Context(), base, product, orders) },
	} {
		for name, product := range map[string]int64{"redis": inRedis, "mysql": inSQL} {
			start := time.Now()
			testkit.Mustf(t, read(product), "%s of %s", what, name)
			one := time.Since(start).Round(time.Millisecond)
			start = time.Now()
			atOnce(t, func() error { return read(product) })
			grown := memory(t, pid, "VmHWM:") - before
			t.Logf("%s of %s: one reader %s, eight at once %s, memory %d MB above the %d MB before",
				what, name, one, time.Since(start).Round(time.Millisecond), grown>>20, before>>20)
			if grown > mostMemory {
				t.Errorf("readers of %s added %d MB to the replica, want less than %d", what, grown>>20, mostMemory>>20)
			}
		}
	}
}

// memory reads a line of a process's status, in bytes.
func memory(t *testing.T, pid int, name string) int {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	testkit.Must(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 3 && fields[0] == name {
			kb, err := strconv.Atoi(fields[1])
			testkit.Must(t, err)
			return kb << 10
		}
	}
	t.Fatalf("process %d has no %s", pid, name)
	return 0
}

// sold is the n-th order of an exact run.
func sold(product int64, n, orders int) ledger.Order {
	left := int64(orders + 7 - n - 1)
	return ledger.Order{
		ID: fmt.Sprintf("01932c5f-%04x-7%03x-8000-%012d", n>>12, n&0xfff, n), ProductID: product, Quantity: 1,
		Remaining: &left, Mode: "queue",
		Replica: fmt.Sprint(1 + n%3), CreatedMicros: time.Now().UnixMicro(),
	}
}

const fillBatch = 1000

func pushOrders(t *testing.T, address string, product int64, orders int) {
	t.Helper()
	c, err := backend.OpenRedis(address, 2)
	testkit.Must(t, err)
	defer func() { _ = c.Close() }()
	for n := 0; n < orders; {
		pipe := c.Pipeline()
		for end := min(orders, n+fillBatch); n < end; n++ {
			row, err := json.Marshal(sold(product, n, orders))
			testkit.Must(t, err)
			pipe.RPush(t.Context(), fmt.Sprintf("lastitem:orders:{%d}", product), row)
		}
		_, err := pipe.Exec(t.Context())
		testkit.Must(t, err)
	}
	testkit.Must(t, c.Set(t.Context(), fmt.Sprintf("lastitem:stock:{%d}", product), 7, 0).Err())
}

func insertOrders(t *testing.T, dsn string, product int64, orders int) {
	t.Helper()
	db, err := backend.OpenSQL(dsn, 2)
	testkit.Must(t, err)
	pool, err := db.DB()
	testkit.Must(t, err)
	defer pool.Close()
	for n := 0; n < orders; {
		var rows []string
		var args []any
		for end := min(orders, n+fillBatch); n < end; n++ {
			o := sold(product, n, orders)
			rows = append(rows, "(?, ?, 1, ?, 'queue', ?, 0, ?)")
			args = append(args, o.ID, product, *o.Remaining, o.Replica, o.CreatedMicros)
		}
		do(t, db, "INSERT INTO orders (id, product_id, quantity, remaining, mode, replica, fence, created_us) VALUES "+
			strings.Join(rows, ","), args...)
	}
	do(t, db, "UPDATE product_stock SET stock = 7 WHERE id = ?", product)
}

// insertHolds makes as many reservations that have ended a week before their deadline, and a tenth as many that are
// held.
func insertHolds(t *testing.T, dsn string, product int64, expired int) {
	t.Helper()
	db, err := backend.OpenSQL(dsn, 2)
	testkit.Must(t, err)
	pool, err := db.DB()
	testkit.Must(t, err)
	defer pool.Close()
	now, ends := time.Now().UnixMicro(), time.Now().Add(ledger.LongestHold).UnixMicro()
	for n := range (expired + expired/10) / fillBatch {
		var holds, items []string
		for i := range fillBatch {
			id, state := fmt.Sprintf("sql-%d-%09d", product, n*fillBatch+i), "cancelled"
			if i%11 == 0 {
				state = "held"
			}
			holds = append(holds, fmt.Sprintf("('%s', 'reserve-sql', '1', '%s', %d, 'refund', %d, %[4]d)", id, state, ends, now))
			items = append(items, fmt.Sprintf("('%s', %d, (SELECT run FROM product_stock WHERE id = %[2]d), 1)", id, product))
		}
		do(t, db, "INSERT INTO reservation (id, mode, replica, state, expires_us, late, created_us, changed_us) VALUES "+
			strings.Join(holds, ","))
		do(t, db, "INSERT INTO reservation_item (reservation_id, product_id, run, quantity) VALUES "+strings.Join(items, ","))
	}
	do(t, db, "UPDATE product_stock SET way = 'holds', stock = initial - "+
		"(SELECT COUNT(*) FROM reservation WHERE state = 'held') WHERE id = ?", product)
}

// readHolds reads the first page of the reservations and the audit.
func readHolds(t *testing.T, base, token string, product int64, expired int) {
	t.Helper()
	start := time.Now()
	var page api.Reservations
	_, err := getWith(t.Context(), token, fmt.Sprintf("%s/products/%d/reservations", base, product), &page)
	if err != nil || page.Stock+page.Held != page.Initial || page.Held < int64(expired/11) {
		t.Errorf("the first page has %d in stock and %d held of %d, %v", page.Stock, page.Held, page.Initial, err)
	}
	t.Logf("the first page of %d reservations: %s", expired, time.Since(start).Round(time.Millisecond))
	start = time.Now()
	var a auditReport
	_, err = get(t.Context(), fmt.Sprintf("%s/products/%d/audit", base, product), &a)
	if err != nil || a.Verdict == judge.Inconclusive || a.Verdict == judge.Broken {
		t.Errorf("the audit beside them says %s, %v", a.Verdict, err)
	}
	t.Logf("the audit beside them: %s, %s", a.Verdict, time.Since(start).Round(time.Millisecond))
}

func do(t *testing.T, db *gorm.DB, statement string, args ...any) {
	t.Helper()
	testkit.Must(t, db.WithContext(t.Context()).Exec(statement, args...).Error)
}

// atOnce runs eight of them.
func atOnce(t *testing.T, one func() error) {
	t.Helper()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			testkit.Check(t, one())
		})
	}
	all.Wait()
}

// readAll pages through a ledger without keeping it, and holds the first page against the law and the rows against the
// first page.
func readAll(t *testing.T, base string, product int64, orders int) error {
	start, read, size := time.Now(), 0, 0
	for cursor, page := "", 0; cursor != "" || page == 0; page++ {
		var l api.Ledger
		path := fmt.Sprintf("%s/products/%d/ledger?limit=1000", base, product)
		if cursor != "" {
			path += "&cursor=" + url.QueryEscape(cursor)
		}
		n, err := get(t.Context(), path, &l)
		if err != nil {
			return err
		}
		if page == 0 {
			var units int64
			for s, t := range l.Totals {
				units += l.Initial[s] - l.Stock[s] - t.Units
			}
			if units != 0 {
				return fmt.Errorf("the first page is %d units off: %v, %v, %v", units, l.Initial, l.Stock, l.Totals)
			}
			t.Logf("product %d: the first page after %s", product, time.Since(start).Round(time.Millisecond))
		}
		read, size, cursor = read+len(l.Orders), size+n, l.NextCursor
	}
	if read != orders {
		return fmt.Errorf("the pages hold %d orders in %d bytes, want %d", read, size, orders)
	}
	return nil
}

// auditOnce audits a product.
func auditOnce(ctx context.Context, base string, product int64, orders int) error {
	var a auditReport
	if _, err := get(ctx, fmt.Sprintf("%s/products/%d/audit", base, product), &a); err != nil {
		return err
	}
	for _, r := range a.Reports {
		if r.Orders == orders && r.Verdict == judge.Exact && a.Verdict == judge.Exact {
			return nil
		}
	}
	return fmt.Errorf("audit = %+v", a)
}

// get reads a body, and comes again where the service says that it has others to read for.
func get(ctx context.Context, path string, body any) (size int, err error) {
	return getWith(ctx, "", path, body)
}

func getWith(ctx context.Context, token, path string, body any) (size int, err error) {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
		if err != nil {
			return 0, err
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		var text bytes.Buffer
		_, err = text.ReadFrom(res.Body)
		res.Body.Close()
		switch {
		case err != nil:
			return 0, err
		case res.StatusCode == http.StatusTooManyRequests:
			time.Sleep(time.Second) // as Retry-After says
		case res.StatusCode != http.StatusOK:
			return 0, fmt.Errorf("GET %s: %s %s", path, res.Status, &text)
		default:
			return text.Len(), json.Unmarshal(text.Bytes(), body)
		}
	}
}

// ledgerOf serves a ledger of ten units in Redis, of which sold were ordered and left are left; SQL was not touched.
func ledgerOf(t *testing.T, sold int, left int64) string {
	t.Helper()
	l := api.Ledger{
		ProductID: 101,
		Initial:   map[api.Store]int64{api.Redis: 10, api.SQL: 10},
		Stock:     map[api.Store]int64{api.Redis: left, api.SQL: 10},
	}
	for i := range sold {
		remaining := int64(max(0, 9-i))
		l.Orders = append(l.Orders, api.Order{
			OrderID: "order-" + string(rune('a'+i)), ProductID: 101, Quantity: 1, Remaining: &remaining, Store: api.Redis,
			Mode: "unsafe",
		})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /products/101/ledger", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		testkit.Check(t, json.NewEncoder(w).Encode(l))
	})
	server := testkit.Serve(t, mux)
	return server.URL
}

func TestAuditCommand(t *testing.T) {
	t.Parallel()
	exact, broken, untouched := ledgerOf(t, 10, 0), ledgerOf(t, 11, 0), ledgerOf(t, 0, 10)
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"exact", []string{"--url", exact}, cli.ExitOK, "redis · EXACT"},
		{"exact, the other store", []string{"--url", exact, "--store", "sql"}, exitInconclusive, "sql · VACUOUS"},
		{"broken", []string{"--url", broken}, cli.ExitFailed, "unit 10 was sold 2 times: order order-j; order order-k"},
		{"broken, in Chinese", []string{"--url", broken, "--lang", "zh"}, cli.ExitFailed, "超卖 1"},
		{"broken, as JSON", []string{"--url", broken, "-o", "json"}, cli.ExitFailed, `"verdict": "BROKEN"`},
		{"nothing sold", []string{"--url", untouched}, exitInconclusive, "nothing was sold"},
		{"no such product", []string{"--url", exact, "--product", "7"}, exitInconclusive, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := commandLine(t.Context(), newAudit("en"), c.args...)
			if code != c.code || !strings.Contains(out+errOut, c.says) {
				t.Errorf("shop audit %q exits %d and says\n%s%s\nwant %d and %q", c.args, code, out, errOut, c.code, c.says)
			}
		})
	}
	// Of a store that was not read, the text has no numbers.
	_, out, _ := commandLine(t.Context(), newAudit("en"), "--url", exact, "--store", "etcd")
	if !strings.Contains(out, "how much stock etcd held") || strings.Contains(out, "before") ||
		strings.Contains(out, "oversold") {
		t.Errorf("shop audit of a store that is not there says\n%s\nwant no numbers", out)
	}
	if exitFor(judge.Verdict("")) == cli.ExitOK {
		t.Error("a verdict nobody knows is green")
	}
}
