package stock

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"lastitem/contract/ledger"
	"lastitem/internal/step"
	"lastitem/internal/store/redisdb"
	"lastitem/internal/store/sqldb"
)

// A deduction writes in this order, whatever its mode:
//
//	in Redis   Begin ── the count (Settle) ── the order (Orders.Append)    two commands: a crash between them leaks the units
//	in SQL     Orders.InTx: BEGIN ── the count ── the order ── Begin ── COMMIT
//
// Before [Begin] a deduction ends with its request. After that only a time limit ends it: a half-done deduction is
// worse than one whose client has left.

// SettleTimeout bounds the work after the first write.
const SettleTimeout = 10 * time.Second

// Attempt records whether a request has begun to write, or has been answered without writing.
type Attempt struct {
	Settle time.Duration // bounds each command after the first write, see [Settle]; 0 = 10 s
	state  atomic.Int32
}

const (
	attemptOpen int32 = iota
	attemptBegun
	attemptOver
)

type attemptKey struct{}

// NewContext returns a context for the request of this attempt.
func (a *Attempt) NewContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// Begin is [Begin] for this attempt.
func (a *Attempt) Begin() bool {
	return a.state.CompareAndSwap(attemptOpen, attemptBegun) || a.state.Load() == attemptBegun
}

// Over makes every later [Begin] fail. It returns false if Begin has already succeeded.
func (a *Attempt) Over() bool { return a.state.CompareAndSwap(attemptOpen, attemptOver) }

func attemptOf(ctx context.Context) *Attempt {
	a, _ := ctx.Value(attemptKey{}).(*Attempt)
	return a
}

// Begin must be called before the first command that cannot be undone; in a transaction, before COMMIT. It fails if the
// request was already answered at its deadline with "nothing happened": then the caller must not write. It may be
// called again.
func Begin(ctx context.Context) error {
	if a := attemptOf(ctx); a == nil || a.Begin() {
		return nil
	}
	return fmt.Errorf("%w: %w: it has been answered", ErrUnavailable, ErrTooLate)
}

// Settling returns a context for commands that must not stop half-way: it ends after ten seconds, not with the request.
func Settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), SettleTimeout)
}

// Settle sends one command of a deduction that has begun to write. Its time limit starts here. With one limit for all
// commands, a process that was stopped after the first would wake up too late to send the others, and the units would
// be lost.
func Settle(ctx context.Context, send func(context.Context) error) error {
	limit := SettleTimeout
	if a := attemptOf(ctx); a != nil {
		limit = cmp.Or(a.Settle, SettleTimeout)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return send(ctx)
}

// Orders makes the orders of a mode and writes them to the store of the count.
type Orders struct {
	Mode, Replica string // are on every order
	Redis         *redisdb.Store
	SQL           *sqldb.Store
	Steps         *step.Stream
}

// New makes the order for the only item of a request. remaining is nil if it is not known.
func (o *Orders) New(req Request, remaining *int64, fence uint64) (ledger.Order, error) {
	return o.of(req.Items[0], req.Key, remaining, fence)
}

// Cart makes the order of a request, a row per item, under one id. remaining is by item; nil where nobody knows it.
func (o *Orders) Cart(req Request, remaining []int64, fence uint64) ([]ledger.Order, error) {
	rows := make([]ledger.Order, len(req.Items))
	for i, item := range req.Items {
		row, err := o.of(item, req.Key, nil, fence)
		if err != nil {
			return nil, err
		}
		if remaining != nil {
			row.Remaining = &remaining[i]
		}
		if i > 0 {
			row.ID, row.CreatedMicros = rows[0].ID, rows[0].CreatedMicros
		}
		rows[i] = row
	}
	return rows, nil
}

func (o *Orders) of(item Item, key []byte, remaining *int64, fence uint64) (ledger.Order, error) {
	id, err := uuid.NewV7FromReader(unique{})
	if err != nil {
		return ledger.Order{}, fmt.Errorf("stock: order id: %w", err)
	}
	return ledger.Order{
		ID: id.String(), ProductID: item.ProductID, Quantity: item.Quantity, Remaining: remaining,
		Mode: o.Mode, Replica: o.Replica, Key: key, Fence: fence, CreatedMicros: time.Now().UnixMicro(),
	}, nil
}

// unique reads random bytes that need not be secret: reading them from the kernel would take a tenth of the time of a
// deduction.
type unique struct{}

// Read fills p.
func (unique) Read(p []byte) (int, error) {
	for i := 0; i < len(p); i += 8 {
		var word [8]byte
		binary.NativeEndian.PutUint64(word[:], rand.Uint64())
		copy(p[i:], word[:])
	}
	return len(p), nil
}

// Append sends the order of units that are already deducted in Redis. If it fails the outcome is unknown: "nothing
// happened" would be false.
func (o *Orders) Append(ctx context.Context, row ledger.Order) error {
	err := Settle(ctx, func(ctx context.Context) error { return o.Redis.Append(ctx, row) })
	if err != nil {
		return fmt.Errorf("%w: order %s not appended: %w", ErrUnknown, row.ID, err)
	}
	return nil
}

// InTx runs a write of the count and inserts the order, in one SQL transaction.
func (o *Orders) InTx(ctx context.Context, row ledger.Order, write func(*sqldb.Tx) error) error {
	return o.CartInTx(ctx, []ledger.Order{row}, write)
}

// CartInTx is InTx for the order of a cart.
func (o *Orders) CartInTx(ctx context.Context, rows []ledger.Order, write func(*sqldb.Tx) error) error {
	ctx, cancel := Settling(ctx)
	defer cancel()
	err := o.SQL.Tx(ctx, sqldb.ReadCommitted, func(tx *sqldb.Tx) error {
		if err := write(tx); err != nil {
			return err
		}
		o.Steps.At(ctx, step.Written, "")
		if err := insertAll(tx, rows); err != nil {
			return err
		}
		o.Steps.At(ctx, step.Ordered, "")
		return Begin(ctx)
	})
	if err == nil {
		o.Steps.At(ctx, step.Committed, "")
	}
	return err
}

// insertAll inserts the rows of an order, and writes run and buyer on those that have one.
func insertAll(tx *sqldb.Tx, rows []ledger.Order) error {
	for _, row := range rows {
		err := tx.InsertOrder(row)
		if err == nil && (row.Buyer != "" || row.Run != 0) {
			err = tx.BoughtBy(row.Buyer, row.ID, row.ProductID, row.Run)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
