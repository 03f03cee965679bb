package plain_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/examples/plain"
	"lastitem/testkit"
)

// counter is a product that is sold by tickets, with its two stores.
type counter struct {
	plain.Tickets

	t       *testing.T
	product int64
}

func newCounter(t *testing.T, units int) counter {
	t.Helper()
	db, product := shop(t, "tickets.go", units), rand.Int64() // the Redis is shared
	_, err := db.ExecContext(t.Context(), "UPDATE stock SET product = ?", product)
	testkit.Must(t, err)
	c := counter{plain.Tickets{DB: db, Redis: client(t), Name: "a", Claim: time.Hour}, t, product}
	testkit.Must(t, c.Redis.Set(t.Context(), c.key("stock"), units, 0).Err())
	return c
}

func (c counter) key(family string) string { return fmt.Sprintf("%s:{%d}", family, c.product) }

func (c counter) win(key string) string {
	c.t.Helper()
	ticket, err := c.Win(c.t.Context(), key, c.product, 1)
	testkit.Must(c.t, err)
	return ticket
}

// drain consumes until nothing is in flight, with another name, and at once what others were given.
func (c counter) drain() {
	c.t.Helper()
	c.Name, c.Claim = "b", 0
	testkit.Until(c.t, "nothing is in flight", func() bool {
		_, _ = c.Consume(c.t.Context(), c.product)
		return c.Redis.HLen(c.t.Context(), c.key("tickets")).Val() == 0
	})
}

// holds checks the stocks of SQL and Redis, the orders, and that the stream is empty.
func (c counter) holds(book, front, orders int) {
	c.t.Helper()
	var units, n int
	testkit.Must(c.t, c.DB.QueryRowContext(c.t.Context(), "SELECT units, (SELECT COUNT(*) FROM orders) FROM stock").Scan(
		&units, &n))
	left, err := c.Redis.Get(c.t.Context(), c.key("stock")).Int()
	testkit.Must(c.t, err)
	length := c.Redis.XLen(c.t.Context(), c.key("stream")).Val()
	if units != book || left != front || n != orders || length != 0 {
		c.t.Errorf("%d units in SQL, %d in Redis, %d orders, %d entries; want %d, %d, %d and none", units, left, n, length,
			book, front, orders)
	}
}

func (c counter) state(ticket, want string) {
	c.t.Helper()
	state, err := c.State(c.t.Context(), c.product, ticket)
	testkit.Check(c.t, err)
	testkit.Is(c.t, state, want, "the state of a ticket")
}

// Sixty buyers want forty units, each twice with one key, while two consumers write the orders, and each look finds
// both sides equal.
func TestTickets(t *testing.T) {
	t.Parallel()
	c := newCounter(t, 40)
	ctx, stop := context.WithCancel(t.Context())
	var consumers sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		one := c
		one.Name = name
		consumers.Go(func() {
			for ctx.Err() == nil {
				_, err := one.Consume(t.Context(), c.product)
				drift, looked := one.Reconcile(t.Context(), c.product, false)
				if testkit.Check(t, errors.Join(err, looked)); drift != 0 {
					t.Errorf("a drift of %d while it is sold", drift)
				}
			}
		})
	}
	sells(t, 40, 60, func(ctx context.Context, buyer int) error {
		first, err := c.Win(ctx, fmt.Sprint(buyer), c.product, 1)
		if again, _ := c.Win(ctx, fmt.Sprint(buyer), c.product, 1); again != first {
			t.Errorf("the same key has the tickets %q and %q", first, again)
		}
		return err
	})
	stop()
	consumers.Wait()
	c.drain()
	c.holds(0, 0, 40)
}

// unended is a client whose consumer dies after COMMIT: nothing of the script that ends tickets reaches Redis.
type unended struct{ redis.UniversalClient }

func (unended) EvalSha(ctx context.Context, _ string, _ []string, _ ...any) *redis.Cmd {
	return redis.NewCmdResult(nil, errors.Join(ctx.Err(), errors.New("killed")))
}

// A ticket that is delivered again after its COMMIT is one order; one whose key a failover has forgotten ends "same",
// and its unit goes back; one that SQL has no unit for is refused.
func TestTicketsComeAgain(t *testing.T) {
	t.Parallel()
	c := newCounter(t, 2)
	first := c.win("ann")
	dead := c
	dead.Redis = unended{c.Redis}
	for range 2 { // the first makes the group
		_, _ = dead.Consume(t.Context(), c.product)
	}
	c.state(first, "queued")
	testkit.Must(t, c.Redis.Del(t.Context(), c.key("answer")+":ann").Err())
	second := c.win("ann")
	testkit.Must(t, c.Redis.IncrBy(t.Context(), c.key("stock"), 2).Err()) // as after a failover
	third, fourth := c.win("bob"), c.win("cid")
	c.drain()
	for ticket, want := range map[string]string{first: "sold", second: "same", third: "sold", fourth: "refused"} {
		c.state(ticket, want)
	}
	c.holds(0, 2, 2)
	drift, err := c.Reconcile(t.Context(), c.product, true)
	testkit.Must(t, err)
	testkit.Is(t, drift, -2, "the drift after units that came from nowhere")
	c.holds(0, 0, 2)
}

// A ticket that two consumers end goes back once.
func TestTicketsEndOnce(t *testing.T) {
	t.Parallel()
	c := newCounter(t, 0)
	testkit.Must(t, c.Redis.Set(t.Context(), c.key("stock"), 1, 0).Err())
	refused, slow, other := c.win("ann"), c, c
	other.Name, other.Claim = "b", 0
	slow.Redis = between{c.Redis, func() { _, err := other.Consume(t.Context(), c.product); testkit.Check(t, err) }, 0}
	for range 2 { // the first makes the group
		_, err := slow.Consume(t.Context(), c.product)
		testkit.Must(t, err)
	}
	c.state(refused, "refused")
	c.holds(0, 1, 0)
}

// An order that the database refuses is given up after five tries, and its unit goes back once; the others of its batch
// are sold at once.
func TestTicketsPoisoned(t *testing.T) {
	t.Parallel()
	c := newCounter(t, 5)
	_, err := c.DB.ExecContext(t.Context(), "CREATE TRIGGER refuse BEFORE INSERT ON orders FOR EACH ROW "+
		"IF NEW.request = 'bad' THEN SIGNAL SQLSTATE '45000'; END IF")
	testkit.Must(t, err)
	good, bad, other := c.win("good"), c.win("bad"), c.win("other")
	for range 2 {
		_, _ = c.Consume(t.Context(), c.product)
	}
	c.state(good, "sold")
	c.state(bad, "queued")
	c.state(other, "sold")
	c.drain()
	c.state(bad, "failed")
	c.holds(3, 3, 2)
}

// Of two who repair at the same time one does, and a stock that must fall below zero does.
func TestReconcileOnce(t *testing.T) {
	t.Parallel()
	c := newCounter(t, 10)
	for i := range 4 {
		c.win(fmt.Sprint(i))
	}
	for _, off := range []int64{-3, 11, 5} {
		testkit.Must(t, c.Redis.IncrBy(t.Context(), c.key("stock"), off).Err())
		late, scripts := c, 0
		late.Redis = between{c.Redis, func() {
			if scripts++; scripts == 2 { // between the look and the correction
				_, err := c.Reconcile(t.Context(), c.product, true)
				testkit.Check(t, err)
			}
		}, 0}
		_, err := late.Reconcile(t.Context(), c.product, true)
		testkit.IsError(t, err, plain.ErrContended, "the second of two corrections")
		left, err := c.Redis.Get(t.Context(), c.key("stock")).Int()
		testkit.Must(t, err)
		testkit.Is(t, left, 6, "the stock in Redis after it was %d off", off)
	}
	for i := range 6 {
		c.win(fmt.Sprint(10 + i))
	}
	_, err := c.DB.ExecContext(t.Context(), "UPDATE stock SET units = 8") // two were sold by somebody else
	testkit.Must(t, err)
	_, err = c.Reconcile(t.Context(), c.product, true)
	testkit.Must(t, err)
	c.drain()
	c.holds(0, 0, 8)
}

// between is a client before whose scripts something happens: to its end, or as far as it comes within a time.
type between struct {
	redis.UniversalClient

	do     func()
	within time.Duration // 0 = to its end
}

func (b between) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	done := make(chan struct{})
	go func() { defer close(done); b.do() }()
	var enough <-chan time.Time
	if b.within > 0 {
		enough = time.After(b.within)
	}
	select {
	case <-done:
	case <-enough:
	}
	return b.UniversalClient.EvalSha(ctx, sha, keys, args...)
}

// No order is committed between the two halves of a look.
func TestReconcileLocks(t *testing.T) {
	t.Parallel()
	c := newCounter(t, 3)
	c.win("ann")
	_, err := c.Consume(t.Context(), c.product) // makes the group
	testkit.Must(t, err)
	looks, consumed := c, make(chan error, 2)
	looks.Redis = between{c.Redis, func() {
		_, err := c.Consume(t.Context(), c.product)
		consumed <- err
	}, 50 * time.Millisecond} // it waits for the row
	drift, err := looks.Reconcile(t.Context(), c.product, false)
	testkit.Must(t, errors.Join(err, <-consumed))
	testkit.Is(t, drift, 0, "the drift while an order is written")
	c.drain()
	c.holds(2, 2, 1)
}
