package handler

import (
	"context"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
)

// Shop is what is served; *shop.Shop is one.
type Shop interface {
	Modes
	Products
	Reserving
	Ticketing
}

// Ticketing is the side of a shop that wins in Redis what it writes in SQL later.
type Ticketing interface {
	Ticket(ctx context.Context, id string, wait time.Duration) (ledger.TicketEnd, error)
	Tickets(ctx context.Context, product int64, after string) (page []ledger.TicketEnd, next string,
		look ledger.TicketLook, err error)
	Reconcile(ctx context.Context, product int64, repair bool) (ledger.Reconciled, error)
}

// Reserving is the side of a shop that holds units for buyers.
type Reserving interface {
	Reserve(ctx context.Context, mode string, req stock.ReserveRequest) (stock.Reserved, error)
	Confirm(ctx context.Context, id string, payment []byte) (ledger.Ended, error)
	Cancel(ctx context.Context, id string, part ledger.Part) (ledger.Ended, error)
	Extend(ctx context.Context, id string, hold time.Duration, key []byte) (ledger.Ended, error)
	Reservation(ctx context.Context, id string) (ledger.Reservation, error)
	Return(ctx context.Context, product int64, order string, restock bool, part ledger.Part) (shop.Returned, error)
	Reservations(ctx context.Context, at stock.Store, product int64, after string) (ledger.Reservations, error)
}

var _ Shop = (*shop.Shop)(nil)

// Modes is the deducting side of a shop.
type Modes interface {
	Modes() []shop.Status
	Mode(name string) (shop.Status, error)
	Deduct(ctx context.Context, mode string, req stock.Request) (stock.Receipt, error)
}

// Products is the stock-keeping side of a shop.
type Products interface {
	KeepKeys() time.Duration
	SetStock(ctx context.Context, product, units int64, rules ledger.Rules) error
	Adjust(ctx context.Context, product int64, at stock.Store, a ledger.Adjustment) (shop.Adjusted, error)
	Product(ctx context.Context, id int64) (shop.Product, error)
	ReadLocked(ctx context.Context, mode string, id int64, wait time.Duration, read func(context.Context) error) error
	Page(ctx context.Context, id int64, p shop.Page) (shop.Ledger, error)
	Audit(ctx context.Context, id int64, read func(stock.Store, *ledger.Snapshot) error) (shop.Ledger, error)
}
