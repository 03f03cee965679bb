package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"lastitem/internal/ledger"
	"lastitem/internal/store"
	"lastitem/internal/testkit"
	"lastitem/internal/testkit/testenv"
	"lastitem/internal/wire"
)

// sweeping is a product of which so many units are held, one each, all overdue, and one of another product.
type sweeping struct {
	holdsOn
	dsn  string
	told *atomic.Int64 // ends
}

const overdueHolds = 25

func startSweeping(t *testing.T) sweeping {
	dsn := testenv.MySQL(t)
	h := sweeping{holdsOn{t, openSQL(t, dsn)}, dsn, new(atomic.Int64)}
	h.listen(h.s)
	resetSQL(t, h.s, 1, overdueHolds, 0)
	resetSQL(t, h.s, 2, 1, 0)
	for i := range overdueHolds {
		testkit.Must(t, h.hold(fmt.Sprintf("h%02d", i), 1))
	}
	h.exec("UPDATE reservation SET expires_us = expires_us - 120000000")
	return h
}

// listen counts the ends that a process tells of. It knows one mode.
func (h sweeping) listen(s *store.SQL) {
	s.HoldBy(func(mode string) store.Way { return map[string]store.Way{"m": aWay}[mode] })
	s.OnEnd(func(ledger.Hold) { h.told.Add(1) })
}

func (h sweeping) exec(statement string) {
	h.Helper()
	testkit.Must(h.T, h.s.DB().Exec(statement).Error)
}

// sweep sweeps as the shop does, in batches.
func (h sweeping) sweep(ctx context.Context, s *store.SQL) (err error) {
	for after, full := (store.Due{}), true; full && ctx.Err() == nil; {
		next, n, one := s.Sweep(ctx, after, 10, "r")
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
			other := openSQL(h.T, h.dsn)
			h.listen(other)
			var wg sync.WaitGroup
			for _, s := range []*store.SQL{h.s, other} {
				wg.Go(func() { _ = h.sweep(h.Context(), s) })
			}
			wg.Wait()
			return func() {}, nil
		}},
		"a server without SKIP LOCKED": {do: func(h sweeping) (mend func(), err error) {
			other := openSQL(h.T, withoutSkipping(h.T, h.dsn))
			h.listen(other)
			if err = h.sweep(h.Context(), other); err == nil && h.held() > 0 {
				err = errors.New("not all have ended")
			}
			return func() {}, err
		}},
		"killed in a batch": killed("SKIP LOCKED", overdueHolds),
		"killed at COMMIT":  killed("COMMIT$", 0), // the server may have reached it
		"killed after it":   killed("^UPDATE reservation_event", overdueHolds-10),
		"a mode of another build": badRow("UPDATE reservation SET mode = 'x' WHERE id = 'h07'",
			"UPDATE reservation SET mode = 'm'"),
		"a release that overflows": badRow(`UPDATE reservation_item SET product_id = 2, run =
			(SELECT run FROM product_stock WHERE id = 2) WHERE reservation_id = 'h07'`, `UPDATE reservation_item SET
			product_id = 1, run = (SELECT run FROM product_stock WHERE id = 1) WHERE reservation_id = 'h07'`),
		"a locked row": {left: 1, do: func(h sweeping) (mend func(), err error) {
			tx := h.s.DB().Begin()
			testkit.Must(h.T, tx.Exec("SELECT 1 FROM reservation WHERE id = 'h07' FOR UPDATE").Error)
			return func() { tx.Rollback() }, h.sweep(h.Context(), h.s)
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
			if late, err := h.s.Overdue(t.Context()); err != nil || tt.left > 0 && late <= 0 {
				t.Errorf("Overdue() = %v, %v with %d left", late, err, tt.left)
			}
			mend()
			testkit.Until(t, "a sweep has ended the rest", func() bool { // a server may still have to roll back
				testkit.Must(t, h.sweep(t.Context(), h.s))
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

// withoutSkipping puts a proxy before a server that misspells SKIP LOCKED: the server answers like one that does not
// know it.
func withoutSkipping(t *testing.T, dsn string) string {
	c, err := mysql.ParseDSN(dsn)
	testkit.Must(t, err)
	server, known := c.Addr, []byte("SKIP LOCKED")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", server)
			if err != nil {
				_ = from.Close()
				continue
			}
			go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
			go func() {
				defer func() { _ = to.Close() }()
				for p := make([]byte, 1<<16); ; {
					n, err := from.Read(p)
					if err != nil {
						return
					}
					_, _ = to.Write(bytes.ReplaceAll(p[:n], known, []byte("SKIP LOCKEX")))
				}
			}()
		}
	}()
	c.Addr = l.Addr().String()
	return c.FormatDSN()
}

// killed ends a sweeper and its connection when a statement of its first batch has been executed.
func killed(at string, left int64) hindrance {
	return hindrance{left: left, do: func(h sweeping) (mend func(), err error) {
		c, err := mysql.ParseDSN(h.dsn)
		testkit.Must(h.T, err)
		p := gate(h.T, c.Addr, wire.MySQL)
		c.Addr = p.Addr
		ctx, kill := context.WithCancel(h.Context())
		other := openSQL(h.T, c.FormatDSN())
		h.listen(other)
		lost := cut(h.T, p, at)
		go func() { <-lost.Reached(); kill() }()
		_ = h.sweep(ctx, other)
		if !wasCut(lost) {
			h.Errorf("no statement %s", at)
		}
		return kill, nil
	}}
}

// badRow spoils one reservation, h07.
func badRow(spoil, undo string) hindrance {
	return hindrance{left: 1, says: "h07", do: func(h sweeping) (mend func(), err error) {
		h.exec("UPDATE product_stock SET stock = 9223372036854775807 WHERE id = 2")
		h.exec(spoil)
		return func() { h.exec(undo) }, h.sweep(h.Context(), h.s)
	}}
}

// diskFull has every write of a kind fail as on a full disk.
func diskFull(what string) hindrance {
	return hindrance{left: overdueHolds, says: "is full", do: func(h sweeping) (mend func(), err error) {
		h.exec("CREATE TRIGGER no_room BEFORE " + what + ` FOR EACH ROW SIGNAL SQLSTATE 'HY000'
			SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'`)
		return func() { h.exec("DROP TRIGGER no_room") }, h.sweep(h.Context(), h.s)
	}}
}
