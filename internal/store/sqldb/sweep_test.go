package sqldb_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"lastitem/contract/ledger"
	"lastitem/internal/store/sqldb"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

// holdsOn is a database with reservations of modes that all hold in aWay.
type holdsOn struct {
	*testing.T
	s *sqldb.Store
	r *sqldb.Reservations
}

func holdsIn(t *testing.T, s *sqldb.Store) holdsOn {
	return holdsOn{t, s, sqldb.NewReservations(s, func(string) sqldb.Way { return aWay })}
}

// sweeping is a product of which so many units are held, one each, all overdue, and one of another product.
type sweeping struct {
	holdsOn
	dsn  string
	told *atomic.Int64 // ends
}

const overdueHolds = 25

func startSweeping(t *testing.T) sweeping {
	dsn := testenv.MySQL(t)
	h := sweeping{holdsOn{t, openSQL(t, dsn), nil}, dsn, new(atomic.Int64)}
	h.r = h.listen(h.s)
	resetSQL(t, h.s, 1, 0, 0)
	resetSQL(t, h.s, 2, 1, 0)
	h.fill("h", overdueHolds, 1, ledger.Held, time.Minute)
	return h
}

// listen counts the ends that a process tells of. It knows one mode.
func (h sweeping) listen(s *sqldb.Store) *sqldb.Reservations {
	r := sqldb.NewReservations(s, func(mode string) sqldb.Way { return map[string]sqldb.Way{"m": aWay}[mode] })
	r.OnEnd(func(ledger.Reservation) { h.told.Add(1) })
	return r
}

func (h sweeping) exec(statement string) {
	h.Helper()
	testkit.Must(h.T, h.s.DB().Exec(statement).Error)
}

// sweep sweeps as the shop does, in batches.
func (h sweeping) sweep(ctx context.Context, r *sqldb.Reservations) (err error) {
	for after, full := (sqldb.Due{}), true; full && ctx.Err() == nil; {
		next, n, one := r.Sweep(ctx, after, 10, "r")
		after, full, err = next, n == 10, errors.Join(err, one)
	}
	return err
}

// held counts the held ones, in one snapshot with the stock; nothing may be lost or made.
func (h sweeping) held() (n int64) {
	h.Helper()
	var twice, stock int64
	testkit.Must(h.T, h.s.DB().Raw(`SELECT (SELECT COUNT(*) FROM reservation WHERE state = 'held'), (SELECT COUNT(*) FROM
		(SELECT 1 FROM reservation_event WHERE was = 'held' GROUP BY reservation_id HAVING COUNT(*) > 1) e),
		(SELECT stock FROM product_stock WHERE id = 1)`).Row().Scan(&n, &twice, &stock))
	if stock+n != overdueHolds || twice > 0 {
		h.Errorf("%d in stock, %d held, %d ended twice; want %d in all", stock, n, twice, overdueHolds)
	}
	return n
}

// Two sweepers at once, a killed one, a row that cannot be ended and a full disk: no unit is lost or given back twice,
// what can be ended is, the error names what cannot, and a later sweep ends the rest.
func TestSweepsHinderedHarmNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]hindrance{
		"two at once": {do: func(h sweeping) (mend func(), err error) {
			other := h.listen(openSQL(h.T, h.dsn))
			var wg sync.WaitGroup
			for _, r := range []*sqldb.Reservations{h.r, other} {
				wg.Go(func() { _ = h.sweep(h.Context(), r) })
			}
			wg.Wait()
			return func() {}, nil
		}},
		"a server without SKIP LOCKED": {do: func(h sweeping) (mend func(), err error) {
			other := h.listen(openSQL(h.T, withoutSkipping(h.T, h.dsn)))
			if err = h.sweep(h.Context(), other); err == nil && h.held() > 0 {
				err = errors.New("not all have ended")
			}
			return func() {}, err
		}},
		"killed in a batch": killed("SKIP LOCKED", overdueHolds),
		"killed at COMMIT":  killed("COMMIT$", 0), // the server may have reached it
		"killed after it":   killed("^UPDATE reservation_event", overdueHolds-10),
		"a mode of another build": badRow("UPDATE reservation SET mode = 'x' WHERE id = 'h0000007'",
			"UPDATE reservation SET mode = 'm'"),
		"a release that overflows": badRow(`UPDATE reservation_item SET product_id = 2, run =
			(SELECT run FROM product_stock WHERE id = 2) WHERE reservation_id = 'h0000007'`, `UPDATE reservation_item SET
			product_id = 1, run = (SELECT run FROM product_stock WHERE id = 1) WHERE reservation_id = 'h0000007'`),
		"a locked row": {left: 1, do: func(h sweeping) (mend func(), err error) {
			tx := h.s.DB().Begin()
			testkit.Must(h.T, tx.Exec("SELECT 1 FROM reservation WHERE id = 'h0000007' FOR UPDATE").Error)
			return func() { tx.Rollback() }, h.sweep(h.Context(), h.r)
		}},
		"a full disk, states":    diskFull("UPDATE ON reservation"),
		"a full disk, events":    diskFull("INSERT ON reservation_event"),
		"a full disk, the stock": diskFull("UPDATE ON product_stock"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startSweeping(t)
			mend, err := tt.do(h)
			if left := h.held(); tt.left > 0 && left != tt.left || (err != nil) != (tt.says != "") ||
				err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%d are left, and the sweep says %v; want %d, and %q", left, err, tt.left, tt.says)
			}
			if late, err := h.r.Overdue(t.Context()); err != nil || tt.left > 0 && late <= 0 {
				t.Errorf("Overdue() = %v, %v with %d left", late, err, tt.left)
			}
			mend()
			testkit.Until(t, "a sweep has ended the rest", func() bool { // a server may still have to roll back
				testkit.Must(t, h.sweep(t.Context(), h.r))
				return h.held() == 0
			})
			if n := h.told.Load(); n > overdueHolds {
				t.Errorf("told of %d ends, want each once", n)
			}
		})
	}
}

// hindrance is a trouble; do returns the error of a sweep in it, and what ends the trouble. left are then not ended, 0
// = any number; says is in the error, "" = none.
type hindrance struct {
	do   func(h sweeping) (mend func(), err error)
	left int64
	says string
}

// withoutSkipping is the address of a server that answers like one that does not know SKIP LOCKED: connections to it
// misspell that.
func withoutSkipping(t *testing.T, dsn string) string {
	const misspelt = "127.0.0.2:"
	mysql.RegisterDialContext("tcp", func(ctx context.Context, addr string) (net.Conn, error) {
		port, wrong := strings.CutPrefix(addr, misspelt)
		if !wrong {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
		c, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:"+port)
		return misspelling{c}, err
	})
	c, err := mysql.ParseDSN(dsn)
	testkit.Must(t, err)
	c.Addr = strings.Replace(c.Addr, "127.0.0.1:", misspelt, 1)
	return c.FormatDSN()
}

type misspelling struct{ net.Conn }

func (m misspelling) Write(p []byte) (int, error) {
	return m.Conn.Write(bytes.ReplaceAll(p, []byte("SKIP LOCKED"), []byte("SKIP LOCKEX")))
}

// killed ends a sweeper and its connection when a statement of its first batch has been executed.
func killed(at string, left int64) hindrance {
	return hindrance{left: left, do: func(h sweeping) (mend func(), err error) {
		c, err := mysql.ParseDSN(h.dsn)
		testkit.Must(h.T, err)
		p := storetest.Gate(h.T, c.Addr, codec.MySQL)
		c.Addr = p.Addr
		ctx, kill := context.WithCancel(h.Context())
		other := h.listen(openSQL(h.T, c.FormatDSN()))
		lost := storetest.Cut(h.T, p, at)
		go func() { <-lost.Reached(); kill() }()
		_ = h.sweep(ctx, other)
		if !storetest.WasCut(lost) {
			h.Errorf("no statement %s", at)
		}
		return kill, nil
	}}
}

// badRow spoils one reservation, h0000007.
func badRow(spoil, undo string) hindrance {
	return hindrance{left: 1, says: "h0000007", do: func(h sweeping) (mend func(), err error) {
		h.exec("UPDATE product_stock SET stock = 9223372036854775807 WHERE id = 2")
		h.exec(spoil)
		return func() { h.exec(undo) }, h.sweep(h.Context(), h.r)
	}}
}

// diskFull has every write of a kind fail as on a full disk.
func diskFull(what string) hindrance {
	return hindrance{left: overdueHolds, says: "is full", do: func(h sweeping) (mend func(), err error) {
		h.exec("CREATE TRIGGER no_room BEFORE " + what + ` FOR EACH ROW SIGNAL SQLSTATE 'HY000'
			SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'`)
		return func() { h.exec("DROP TRIGGER no_room") }, h.sweep(h.Context(), h.r)
	}}
}

// fill makes reservations of some products, a unit each, of two buyers, that are due so long ago; negative = in future.
func (h holdsOn) fill(name string, n, products int, state ledger.ReservationState, ago time.Duration) {
	h.Helper()
	at := time.Now().Add(-ago).UnixMicro()
	for from := 0; from < n; {
		var holds, items []string
		for end := min(n, from+1000); from < end; from++ {
			id, p := fmt.Sprintf("%s%07d", name, from), 1+from%products
			holds = append(holds, fmt.Sprintf("('%s', 'm', 'r', 'b%d', '%s', %d, 'refund', %d, %d)", id, from%2, state,
				at+int64(from), at, at))
			items = append(items, fmt.Sprintf("('%s', %d, (SELECT run FROM product_stock WHERE id = %d), 1)", id, p, p))
		}
		testkit.Must(h.T, h.s.DB().Exec("INSERT INTO reservation (id, mode, replica, buyer, state, expires_us, late, "+
			"created_us, changed_us) VALUES "+strings.Join(holds, ",")).Error)
		testkit.Must(h.T, h.s.DB().Exec("INSERT INTO reservation_item (reservation_id, product_id, run, quantity) VALUES "+
			strings.Join(items, ",")).Error)
	}
}

// count runs a query for a number.
func (h holdsOn) count(query string) (n int) {
	h.Helper()
	testkit.Must(h.T, h.s.DB().Raw(query).Row().Scan(&n))
	return n
}

// A product whose row stays locked keeps its own reservations, and nobody else's: those of the other products end
// meanwhile, though they are due later, and the error names the product.
func TestSweepPassesALockedProduct(t *testing.T) {
	t.Parallel()
	h := holdsIn(t, openSQL(t, testenv.MySQL(t)))
	for product := range int64(3) {
		resetSQL(t, h.s, product+1, 0, 0)
	}
	h.fill("a", 30, 1, ledger.Held, time.Hour)
	h.fill("b", 30, 3, ledger.Held, time.Minute)
	tx := h.s.DB().Begin()
	defer tx.Rollback()
	testkit.Must(t, tx.Exec("SELECT 1 FROM product_stock WHERE id = 1 FOR UPDATE").Error)
	swept := make(chan error, 1)
	go func() { swept <- sweeping{holdsOn: h}.sweep(t.Context(), h.r) }()
	testkit.Until(t, "the others have ended", func() bool {
		return h.count("SELECT COUNT(*) FROM reservation WHERE state = 'held'") == 40
	})
	if err := <-swept; err == nil || !strings.Contains(err.Error(), "product 1:") {
		t.Errorf("Sweep() = %v, want that product 1 is locked", err)
	}
	one, all := h.count("SELECT stock FROM product_stock WHERE id = 2"), h.count("SELECT SUM(stock) FROM product_stock")
	if one != 10 || all != 20 {
		t.Errorf("%d units of product 2 and %d of all have come back, want 10 and 20", one, all)
	}
}

// envHolds is how many reservations TestSweepIsCheap ends; 'make reads' sets it.
const envHolds = "READS_TEST_HOLDS"

// Beside a tenth as many live ones, an expired hold costs a tenth of a statement at most, its purge too, and the first
// page of the reservations reads the live ones. The times are reported.
func TestSweepIsCheap(t *testing.T) {
	t.Parallel()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(envHolds), "3000"))
	testkit.Must(t, err)
	const products = 5
	dsn := testenv.MySQL(t)
	h := holdsIn(t, openSQL(t, dsn))
	for product := range int64(products) {
		testkit.Must(t, h.s.Reset(t.Context(), product+1, 0, ledger.Rules{PerBuyer: 1 << 40}))
	}
	testkit.Must(t, h.s.DB().Exec("INSERT INTO buyer_units SELECT id, run, b, 1000000 FROM product_stock, "+
		"(SELECT 'b0' b UNION SELECT 'b1') of_all").Error)
	h.fill("live", n/10, products, ledger.Held, -time.Hour)
	h.fill("due", n, products, ledger.Held, 2*time.Hour)
	c, err := mysql.ParseDSN(dsn)
	testkit.Must(t, err)
	p := storetest.Gate(t, c.Addr, codec.MySQL)
	c.Addr = p.Addr
	var statements atomic.Int64
	p.Add(wire.Rule{Every: true, Match: func(c wire.Call) bool {
		statements.Add(1 + int64(strings.Count(c.Text, "; ")))
		return false
	}})
	through := openSQL(t, c.FormatDSN())
	sweep := func(s *sqldb.Store, most int) (ended int) {
		r := holdsIn(t, s).r
		for after, full := (sqldb.Due{}), true; full && ended < most; {
			next, seen, err := r.Sweep(t.Context(), after, 500, "r")
			testkit.Must(t, err)
			after, full, ended = next, seen == 500, ended+seen
		}
		return ended
	}
	ended := sweep(through, n/3)
	t.Logf("%d statements for %d expired holds", statements.Load(), ended)
	if most := int64(ended) / 10; statements.Load() > most {
		t.Errorf("%d statements for %d holds, want %d at most", statements.Load(), ended, most)
	}
	rate := func(what string, begun time.Time, ended int) {
		t.Logf("%s: %.0f a second", what, float64(ended)/time.Since(begun).Seconds())
	}
	begun := time.Now()
	rate("expiries by one sweeper", begun, sweep(openSQL(t, dsn), n/3))
	begun, left := time.Now(), h.count("SELECT COUNT(*) FROM reservation WHERE state = 'held'")-n/10
	var all sync.WaitGroup
	for range 3 {
		other := openSQL(t, dsn)
		all.Go(func() { sweep(other, n) })
	}
	all.Wait()
	rate("by three", begun, left)
	if held, stock, units := h.count("SELECT COUNT(*) FROM reservation WHERE state = 'held'"),
		h.count("SELECT SUM(stock) FROM product_stock"), h.count("SELECT SUM(units) FROM buyer_units"); held != n/10 ||
		stock != n || units != 2*products*1_000_000-n {
		t.Errorf("%d are held, %d units and %d of the buyers have come back", held, stock, 2*products*1_000_000-units)
	}
	begun = time.Now()
	page, err := h.r.Page(t.Context(), 1, "")
	t.Logf("first page of the reservations: %s", time.Since(begun).Round(time.Millisecond))
	if rows := min(ledger.ReservationsPage, 11*n/10/products); err != nil || page.Held != int64(n/10/products) ||
		page.Overdue != 0 || len(page.Rows) != rows {
		t.Errorf("Page() = %d held, %d overdue, %d rows, %v", page.Held, page.Overdue, len(page.Rows), err)
	}
	begun = time.Now()
	testkit.Must(t, h.s.Scan(t.Context(), 1, func(*ledger.Snapshot) error { return nil }))
	t.Logf("an audit has its counts after %s", time.Since(begun).Round(time.Millisecond))
	begun = time.Now()
	testkit.Must(t, h.r.Purge(t.Context(), 0, time.Minute))
	rate("purged", begun, n)
	if rows := h.count("SELECT COUNT(*) FROM reservation"); rows != n/10 {
		t.Errorf("%d reservations are left after a purge, want %d", rows, n/10)
	}
}

// One purge deletes all that ended long ago, however much came: no bound lets the tables grow.
func TestPurgeFollowsTheLoad(t *testing.T) {
	t.Parallel()
	h := holdsIn(t, openSQL(t, testenv.SQLite(t)))
	resetSQL(t, h.s, 1, 0, 0)
	h.fill("old", 2*ledger.ReservationsPage+7, 1, ledger.Expired, 2*time.Hour)
	h.fill("new", 9, 1, ledger.Expired, time.Minute)
	testkit.Must(t, h.s.DB().Exec("UPDATE reservation SET expires_us = 1 << 60 WHERE id LIKE 'old%'").Error) // ended early
	testkit.Must(t, h.r.Purge(t.Context(), time.Hour, 2*time.Hour))
	rows, items := h.count("SELECT COUNT(*) FROM reservation"), h.count("SELECT COUNT(*) FROM reservation_item")
	if rows != 9 || items != 9 {
		t.Errorf("%d reservations and %d items are left, want 9", rows, items)
	}
}
