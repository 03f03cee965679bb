package stock

import (
	"cmp"
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/lock"
	"lastitem/internal/lock/coord"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/step"
	"lastitem/internal/store/etcddb"
	"lastitem/internal/store/redisdb"
	"lastitem/internal/store/sqldb"
)

// Deps is what a mode is built from. A part that is not configured is nil; a mode finds every part that it Needs. A
// shop (package lastitem/internal/shop) makes the Deps of each mode: orders and locks made with them carry its name.
type Deps struct {
	// Where the count lives.
	Redis *redisdb.Store
	SQL   *sqldb.Store
	Etcd  *etcddb.Store

	Reservations *redisdb.Reservations // those in Redis

	Orders  *Orders // makes the mode's orders and writes them
	Locks   Locks   // names the mode's locks and gives them up
	Lockers Lockers // the services that a mode takes its lock from
	// Optional takes a lock that only saves work. While its service is out it returns a lease on nothing, at once.
	Optional func(ctx context.Context, take func(context.Context) (lock.Lease, error)) (lock.Lease, error)
	Group    Group // commits several deductions as one
	// SoldOut says whether the last request for a product in SQL that this process has answered was refused. It may choose
	// a mode's way, never its answer.
	SoldOut func(product int64) bool
	Log     Log          // sends a deduction to the replica that consumes its product
	Tickets Tickets      // wins in Redis what is written in SQL later
	Steps   *step.Stream // is told every step
}

// short says why an item was not taken: sold out, by a read of the primary, or no product of the kind. A plain read
// that shows too little is no refusal: a replica may have answered it. errOvertaken: there is enough.
func (d Deps) short(ctx context.Context, item Item) error {
	units, there, err := d.SQL.Look(ctx, item.ProductID)
	switch {
	case err != nil:
		return err
	case !there:
		_, err = d.SQL.Read(ctx, item.ProductID) // says which
		return cmp.Or(err, errOvertaken)
	case units >= item.Quantity:
		return errOvertaken
	}
	return soldOut(item, units)
}

// Locks names the locks of a mode and gives them up. Each mode has its own: the keys of two modes differ in type.
type Locks interface {
	// Key names the mode's lock of a product; KeyOf that of another mode.
	Key(product int64) string
	KeyOf(mode string, product int64) string
	// SegmentKey names the lock of a segment of a product.
	SegmentKey(product int64, segment int) string
	// Release gives a lease up. The deduction stands whether or not that succeeds, so a failure is only logged.
	Release(ctx context.Context, lease lock.Lease)
}

// Lockers holds the services that make locks. A nil service makes the modes that need it unavailable. The owner of a
// service closes it, after the shop and before its client.
type Lockers struct {
	// Client is for the lockers. Their keys are beside the store's; Prefix is put before each of them.
	Client redis.UniversalClient
	Prefix string
	// TTL is the expiry of every lock that has one, except the engine's.
	TTL time.Duration
	// Wakeups tells waiting lockers that a lock was released; nil = they poll.
	Wakeups *textbook.Wakeups
	// Engine is the lock of handoff, fair and rwlock, and of the modes whose lesson is not the lock, one per process.
	Engine *handoff.Engine
	// The locks on services of their own, one of each per process.
	Redlock   *textbook.Redlock
	ZooKeeper *coord.ZooKeeper
	Etcd      *coord.Etcd
	Consul    *coord.Consul
}

// Group commits several deductions as one.
type Group interface {
	// Commit deducts for a batch of requests for one product, in one transaction. When it returns, every ticket has its
	// result; until then no request may be answered. First come, first served: the results are the same as if the requests
	// were executed one after the other, in the order of the batch. So when stock runs short, a large request is refused,
	// and a smaller one after it may still be served.
	Commit(product int64, batch []*Ticket)
}

// Ticket is one request for one product on its way through a group commit, and then its result.
type Ticket struct {
	Ctx         context.Context // whose steps they are; it ends nothing
	Order       ledger.Order
	Fingerprint []byte // of the payload, with a key
	Answer      func(Receipt, error) idempotency.Answer
	// Run is the product's run in which the request is valid, for requests from a log; 0 = any run. A log may deliver a
	// request again. A sold request without a key is then recognised by the row of its order. A refused one is refused
	// again, since within one run stock only falls.
	Run int64

	Receipt  Receipt
	Err      error
	Panicked any // the panic of Answer or of a reader of steps; then nothing happened
}

// Log carries requests to the replica that consumes their product, where a [Group] commits them, and its answers back.
type Log interface {
	// Ask sends a request and waits for its answer. ErrUnavailable and ErrContended: it was not sent. ErrUnknown: it was
	// sent, and no answer came. If the client hangs up after that, the request is still executed.
	Ask(ctx context.Context, r LogRequest) (Receipt, error)
}

// Tickets wins units in Redis, for an order that a consumer writes in SQL later.
type Tickets interface {
	// Win is [redisdb.Tickets.Win].
	Win(ctx context.Context, s redisdb.Sale) (redisdb.Sold, error)
	// Send and PutBack are those of [redisdb.Tickets].
	Send(o ledger.Order) error
	PutBack(o ledger.Order) error
}

// LogRequest is a request as another replica needs it: the order without the remaining stock, and both answers without
// that number.
type LogRequest struct {
	Order         ledger.Order
	Fingerprint   []byte
	Sold, Refused idempotency.Template
}
