package stock_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/stock"
	"lastitem/internal/store/sqldb"
	"lastitem/judge"
	"lastitem/testkit/stocktest"
)

// deductor makes a function a Deductor.
type deductor func(ctx context.Context, req stock.Request) (stock.Receipt, error)

func (d deductor) Deduct(ctx context.Context, req stock.Request) (stock.Receipt, error) {
	return d(ctx, req)
}

// named returns the mode of that name, with its deductor replaced if replace is not nil.
func named(t *testing.T, name string, replace func(stock.Deps) stock.Deductor) stock.Mode {
	t.Helper()
	for _, m := range stock.Modes() {
		if m.Name == name {
			if replace != nil {
				m.New = func(d stock.Deps) (stock.Deductor, error) { return replace(d), nil }
			}
			return m
		}
	}
	t.Fatalf("no mode %q", name)
	return stock.Mode{}
}

func order(d stock.Deps, mode string, req stock.Request, remaining *int64) ledger.Order {
	return ledger.Order{
		ID: uuid.NewString(), ProductID: req.Items[0].ProductID, Quantity: req.Items[0].Quantity, Remaining: remaining,
		Mode: mode, Replica: d.Orders.Replica, Key: req.Key, CreatedMicros: time.Now().UnixMicro(),
	}
}

func refuse(req stock.Request, available int64) error {
	item := req.Items[0]
	return &stock.SoldOutError{ProductID: item.ProductID, Requested: item.Quantity, Available: available}
}

// guarded is a correct deduction with a switch for each mistake.
type guarded struct {
	ignoreRefusal bool
	rollBack      bool
	noOrder       bool
	chargeTwice   bool
}

var errRollBack = errors.New("rolled back")

func (g guarded) in(d stock.Deps) stock.Deductor {
	return deductor(func(ctx context.Context, req stock.Request) (r stock.Receipt, err error) {
		refused := false
		err = d.SQL.Tx(ctx, sqldb.ReadCommitted, func(tx *sqldb.Tx) error {
			r, refused, err = g.take(d, tx, req)
			return err
		})
		switch {
		case errors.Is(err, errRollBack):
			return r, nil
		case err == nil && refused:
			return stock.Receipt{}, refuse(req, 0)
		}
		return r, err
	})
}

func (g guarded) take(d stock.Deps, tx *sqldb.Tx, req stock.Request) (r stock.Receipt, refused bool, err error) {
	item := req.Items[0]
	o := order(d, "lease-seq", req, nil)
	r = stock.Receipt{OrderID: o.ID}
	remaining, ok, err := tx.Take(item.ProductID, item.Quantity)
	if err != nil || !ok && !g.ignoreRefusal {
		return r, !ok, err
	}
	o.Remaining = &remaining
	if !g.noOrder {
		err = tx.InsertOrder(o)
	}
	if g.chargeTwice && err == nil {
		o.ID = uuid.NewString()
		_, ok, err = tx.Take(item.ProductID, item.Quantity)
		if err == nil && ok {
			err = tx.InsertOrder(o)
		}
	}
	if g.rollBack && err == nil {
		err = errRollBack
	}
	return r, false, err
}

// sellsNothing refuses every request as sold out.
func sellsNothing(stock.Deps) stock.Deductor {
	return deductor(func(_ context.Context, req stock.Request) (stock.Receipt, error) {
		return stock.Receipt{}, refuse(req, 0)
	})
}

// stuck sells five units; after that no request gets its lock.
func stuck() func(stock.Deps) stock.Deductor {
	var sales atomic.Int64
	return func(d stock.Deps) stock.Deductor {
		right := guarded{}.in(d)
		return deductor(func(ctx context.Context, req stock.Request) (stock.Receipt, error) {
			if sales.Add(1) > 5 {
				return stock.Receipt{}, stock.ErrLockBusy
			}
			return right.Deduct(ctx, req)
		})
	}
}

// wrongReplay answers a repetition with an order that never was.
func wrongReplay(d stock.Deps) stock.Deductor {
	for _, m := range stock.Modes() {
		if m.Name == "idempotent" {
			right, err := m.New(d)
			return deductor(func(ctx context.Context, req stock.Request) (stock.Receipt, error) {
				if err != nil {
					return stock.Receipt{}, err
				}
				r, err := right.Deduct(ctx, req)
				if r.Replayed {
					r.Stored.Body, _ = json.Marshal(api.Deduction{OrderID: uuid.NewString()})
				}
				return r, err
			})
		}
	}
	return nil
}

func TestMutantsAreRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode    string
		mutant  func(stock.Deps) stock.Deductor
		at      stock.Store
		twice   bool
		verdict judge.Verdict
		found   string
	}{
		"none":                  {"lease-seq", guarded{}.in, stock.SQL, false, judge.Exact, ""},
		"affected rows ignored": {"lease-seq", guarded{ignoreRefusal: true}.in, stock.SQL, false, judge.Broken, "O"},
		"ack before commit":     {"lease-seq", guarded{rollBack: true}.in, stock.SQL, false, judge.Broken, "A"},
		"no order":              {"lease-seq", guarded{noOrder: true}.in, stock.SQL, false, judge.Broken, "LA"},
		"sells nothing":         {"lease-seq", sellsNothing, stock.SQL, false, judge.Broken, ""},
		"stuck":                 {"lease-seq", stuck(), stock.SQL, false, judge.Broken, "X"},
		"charges twice":         {"lease-seq", guarded{chargeTwice: true}.in, stock.SQL, false, judge.Broken, "D"},
		"charges a repetition":  {"lease-seq", guarded{}.in, stock.SQL, true, judge.Broken, "D"},
		"replays another order": {"idempotent", wrongReplay, stock.SQL, true, judge.Broken, "A"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := stocktest.Open(t, stocktest.Embedded(t), 1, []stock.Mode{named(t, c.mode, c.mutant)})
			p := stocktest.Plan{
				Mode: c.mode, Store: c.at, Replicas: 1, Stock: 20, Quantity: 1, Clients: 6, Requests: 36, Twice: c.twice,
			}
			r := h.Shown(t, p, api.Exact)
			want := judge.Contradicted
			if c.verdict == judge.Exact {
				want = judge.Confirmed
			}
			finding, why := judge.Check(r, api.Exact)
			if r.Verdict != c.verdict || r.Found != c.found || finding != want {
				t.Errorf("%s, found %q, %s; want %s, %q, %s: %q\n%s",
					r.Verdict, r.Found, finding, c.verdict, c.found, want, why, r.Text("en"))
			}
		})
	}
}
