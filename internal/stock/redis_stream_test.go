package stock_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/stock"
	"lastitem/internal/store/redisdb"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
	"lastitem/testkit/testenv"
)

// aLine is a shop of replicas of which the first ones do not consume, and its tickets as a consumer sees them.
type aLine struct {
	*stocktest.Harness
	t       *testing.T
	tickets *redisdb.Tickets
	prefix  string
	product int64
}

// onEachLine runs a test on each kind of server, with two replicas that do not consume.
func onEachLine(t *testing.T, units int64, rules ledger.Rules, test func(l aLine)) {
	t.Helper()
	for _, e := range stocktest.Envs {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			onALine(t, e.Open(t), units, rules, test)
		})
	}
}

func onALine(t *testing.T, env stocktest.Env, units int64, rules ledger.Rules, test func(l aLine)) {
	t.Helper()
	env.Idle = 2
	h := stocktest.Open(t, env, 2, stock.Modes())
	test(aLine{h, t, redisdb.NewTickets(h.Replicas[0].Backends.Redis), env.Prefix, h.ProductWith(t, units, rules)})
}

// win buys at the first replica, and returns the ticket's id.
func (l aLine) win(key, buyer string) string {
	l.t.Helper()
	req := stocktest.Request(l.product, 1, key)
	req.Store, req.Buyer = stock.SQL, buyer
	r, err := l.Replicas[0].Shop.Deduct(l.t.Context(), "redis-stream", req)
	testkit.Must(l.t, err)
	return stock.TicketID(l.product, r.OrderID)
}

// consume starts a replica that consumes.
func (l aLine) consume() { l.Start(l.t) }

// ends waits for the end of a ticket.
func (l aLine) ends(id string) ledger.TicketEnd {
	l.t.Helper()
	end, err := l.Replicas[0].Ticket(l.t.Context(), id, stocktest.Patience)
	testkit.Must(l.t, err)
	return end
}

// pending counts the tickets that a replica has read and not ended.
func (l aLine) pending(r *stocktest.Replica) int64 {
	p, _ := l.Replicas[0].Set.Client.XPending(l.t.Context(), fmt.Sprintf("%sstream:{%d}", l.prefix, l.product),
		"shop").Result()
	if p == nil { // no group yet
		return 0
	}
	return p.Consumers[r.Options.Replica]
}

func (l aLine) wantEnds(want ledger.TicketState, ids ...string) {
	l.t.Helper()
	for _, id := range ids {
		if end := l.ends(id); end.State != want {
			l.t.Errorf("ticket %s = %+v, want %s", id, end, want)
		}
	}
}

// What a consumer had read when it died is taken over, and each ticket is sold once, whatever the dead one has done of
// it: nothing, the commit, or the commit twice.
func TestTicketsOfTheDead(t *testing.T) {
	t.Parallel()
	onEachLine(t, 9, ledger.Rules{}, takenOver)
}

// On a Redis Cluster the tickets of a product are in its slot; TestConformanceElsewhere sells them there. Behind a
// Sentinel the mode is as it is elsewhere.
func TestTicketsElsewhere(t *testing.T) {
	testenv.Slow(t, "a Redis Cluster, and a master with a Sentinel")
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		onALine(t, stocktest.Cluster(t), 9, ledger.Rules{}, takenOver)
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		master, err := url.Parse(testenv.RedisNodes(t, 1)[0].URL)
		testkit.Must(t, err)
		password, _ := master.User.Password()
		watch, err := url.Parse(testenv.RedisSentinel(t,
			fmt.Sprintf("sentinel monitor mymaster %s %s 1", master.Hostname(), master.Port()),
			fmt.Sprintf("sentinel auth-pass mymaster %q", password)).URL)
		testkit.Must(t, err)
		own, _ := watch.User.Password()
		master.Scheme, master.Host, master.Path = "redis+sentinel", watch.Host, "/mymaster"
		master.RawQuery = url.Values{"sentinel_username": {watch.User.Username()}, "sentinel_password": {own}}.Encode()
		env := stocktest.Env{Redis: master.String(), SQL: testenv.SQLite(t), Prefix: "sentinel:"}
		onALine(t, env, 9, ledger.Rules{}, takenOver)
		env.Prefix = "conformance:"
		stocktest.Run(t, env, slices.DeleteFunc(stock.Modes(), func(m stock.Mode) bool { return !m.Tickets }))
	})
}

func takenOver(l aLine) {
	var ids []string
	for i := range 5 {
		ids = append(ids, l.win(fmt.Sprint(l.product, "/", i), ""))
	}
	read, _, err := l.tickets.Read(l.t.Context(), l.product, "dead", time.Hour, 3)
	if testkit.Must(l.t, err); len(read) != 3 {
		l.t.Fatalf("a consumer was given %d tickets, want 3", len(read))
	}
	l.consume()
	l.wantEnds(ledger.TicketSold, ids...)
	// the dead one wakes up and ends what it had read, with its units given back
	for _, e := range read {
		n, err := l.tickets.End(l.t.Context(), l.product, []redisdb.Ended{{Entry: e, GiveBack: true}})
		if testkit.Must(l.t, err); n != 0 {
			l.t.Errorf("ticket %s ended a second time", e.Order.ID)
		}
	}
	l.WantBooks(l.t, l.product, stock.SQL, stocktest.Books{Initial: 9, Stock: 4, Sold: 5, Orders: 5})
	l.wantFront(4, 5)
	l.wantAgreement()
}

// wantFront compares what Redis has.
func (l aLine) wantFront(left, passed int64) {
	l.t.Helper()
	all, err := l.Replicas[0].Ledger(l.t.Context(), l.product)
	testkit.Must(l.t, err)
	if f := all.Facts[stock.Redis]; f.Stock != left || f.Passed != passed || f.InFlight != 0 {
		l.t.Errorf("Redis has %d left and %d passed, %d in flight; want %d and %d", f.Stock, f.Passed, f.InFlight, left,
			passed)
	}
}

// redis sends a command about keys of the product.
func (l aLine) redis(command string, families ...string) {
	l.t.Helper()
	args := []any{command}
	for _, family := range families {
		args = append(args, fmt.Sprintf("%s%s:{%d}", l.prefix, family, l.product))
	}
	testkit.Must(l.t, l.Replicas[0].Set.Client.Do(l.t.Context(), args...).Err())
}

// forget makes Redis forget the keys of the product.
func (l aLine) forget(key string) {
	l.t.Helper()
	l.redis("DEL", "answers", "answers-old")
	testkit.Must(l.t, l.Replicas[0].Set.Client.Del(l.t.Context(), l.prefix+"key:"+key).Err())
}

// poison makes the database refuse the order of that key.
func (l aLine) poison() {
	l.t.Helper()
	db := l.Replicas[0].Set.DB
	when := fmt.Sprintf("NEW.product_id = %d AND NEW.idempotency_key = X'%x'", l.product,
		fmt.Sprint(l.product, "/poison"))
	trigger := fmt.Sprintf("CREATE TRIGGER poison%d BEFORE INSERT ON orders FOR EACH ROW ", l.product)
	if l.Replicas[0].Backends.SQL.MySQL() {
		trigger += "IF " + when + " THEN SIGNAL SQLSTATE '45000'; END IF"
	} else {
		trigger += "WHEN " + when + " BEGIN SELECT RAISE(ABORT, 'poison'); END"
	}
	testkit.Must(l.t, db.Exec(trigger).Error)
}

// A key that Redis has forgotten makes a second ticket, which is the same as the first.
func TestTicketOfAForgottenKey(t *testing.T) {
	t.Parallel()
	onEachLine(t, 9, ledger.Rules{}, func(l aLine) {
		l.consume()
		key := fmt.Sprint(l.product, "/k")
		first := l.win(key, "")
		l.wantEnds(ledger.TicketSold, first)
		for _, left := range []int64{8, 0} { // also where SQL has nothing left, so that it would be refused
			l.adjustSQL(left - 8)
			l.forget(key)
			second := l.win(key, "")
			if end := l.ends(second); end.State != ledger.TicketSame || stock.TicketID(l.product, end.OrderID) != first {
				l.t.Errorf("the second ticket of a key = %+v, want same, with the order of %s", end, first)
			}
		}
		l.WantBooks(l.t, l.product, stock.SQL, stocktest.Books{Initial: 1, Sold: 1, Orders: 1})
		l.wantFront(8, 1)
	})
}

// What SQL has not got is refused, and goes back.
func TestTicketThatSQLRefuses(t *testing.T) {
	t.Parallel()
	onEachLine(t, 3, ledger.Rules{PerBuyer: 2}, func(l aLine) {
		ids := []string{l.win("", "b"), l.win("", "b"), l.win("", "c")}
		l.adjustSQL(-2)
		l.consume()
		l.wantEnds(ledger.TicketSold, ids[0])
		l.wantEnds(ledger.TicketRefused, ids[1:]...)
		l.WantBooks(l.t, l.product, stock.SQL, stocktest.Books{Initial: 1, Sold: 1, Orders: 1})
		l.wantFront(2, 1)
		l.win("", "b") // his right came back too
	})
}

// A ticket that the database refuses is given up after five tries alone, and given back once; those of its batch are
// sold.
func TestTicketThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	onEachLine(t, 9, ledger.Rules{}, func(l aLine) {
		ids := []string{l.win("", ""), l.win(fmt.Sprint(l.product, "/poison"), ""), l.win("", "")}
		l.poison()
		l.consume()
		l.wantEnds(ledger.TicketSold, ids[0], ids[2])
		l.wantEnds(ledger.TicketFailed, ids[1])
		l.WantBooks(l.t, l.product, stock.SQL, stocktest.Books{Initial: 9, Stock: 7, Sold: 2, Orders: 2})
		l.wantFront(7, 2)
	})
}

// While nobody consumes tickets queue up to the limit; beyond it nothing is deducted. A new setting voids them: once it
// is in SQL none of them is sold, and once it is in Redis they are gone.
func TestTicketsInFlight(t *testing.T) {
	t.Parallel()
	onEachLine(t, 50, ledger.Rules{}, func(l aLine) {
		var ids []string
		for range 20 {
			ids = append(ids, l.win("", ""))
		}
		l.Replicas[0].Refuse(l.t, stock.ErrQueueFull, "redis-stream", stock.SQL, l.product, 1, "")
		if end, err := l.Replicas[1].Ticket(l.t.Context(), ids[0], 0); err != nil || end.State != ledger.TicketQueued {
			l.t.Errorf("Ticket() = %+v, %v, want queued", end, err)
		}
		testkit.Must(l.t, l.Replicas[0].Backends.SQL.Reset(l.t.Context(), l.product, 50, ledger.Rules{}))
		l.consume()
		testkit.Until(l.t, "a consumer has read them", func() bool { return l.pending(l.Replicas[2]) == 20 })
		testkit.Must(l.t, l.Replicas[2].Close(l.t.Context()))
		now, err := l.Replicas[0].Product(l.t.Context(), l.product)
		testkit.Must(l.t, err)
		testkit.Is(l.t, now.Stock[stock.SQL], 50, "the stock in SQL of the new run")
		l.SetStock(l.t, l.product, 9, 0)
		if _, err := l.Replicas[1].Ticket(l.t.Context(), ids[0], 0); err == nil {
			l.t.Error("a ticket of the run before is still known")
		}
		l.consume()
		l.wantEnds(ledger.TicketSold, l.win("", ""))
		l.WantBooks(l.t, l.product, stock.SQL, stocktest.Books{Initial: 9, Stock: 8, Sold: 1, Orders: 1})
		l.wantFront(8, 1)
	})
}

// A stream that somebody has deleted, or whose group is gone, is read from its beginning, and nothing is sold twice.
func TestTicketsWithoutTheirGroup(t *testing.T) {
	t.Parallel()
	onEachLine(t, 9, ledger.Rules{}, func(l aLine) {
		l.consume()
		l.wantEnds(ledger.TicketSold, l.win("", ""))
		l.redis("DEL", "stream")
		l.wantEnds(ledger.TicketSold, l.win("", ""), l.win("", ""))
		l.WantBooks(l.t, l.product, stock.SQL, stocktest.Books{Initial: 9, Stock: 6, Sold: 3, Orders: 3})
		l.wantFront(6, 3)
	})
}

// What would change one side only is refused: a return of an order, and holds in Redis, before tickets and after them.
func TestTicketsMixWithNoHolds(t *testing.T) {
	t.Parallel()
	onEachLine(t, 9, ledger.Rules{PerBuyer: 3}, func(l aLine) {
		r := l.Replicas[0]
		hold := func() error {
			_, err := r.Reserve(l.t.Context(), "reserve-redis", stock.ReserveRequest{Request: stock.Request{
				Store: stock.Redis, Buyer: "b", Items: []stock.Item{{ProductID: l.product, Quantity: 1}}}, For: time.Minute})
			return err
		}
		l.consume()
		id := l.win("", "b")
		end := l.ends(id)
		for _, restock := range []bool{true, false} {
			_, err := r.Return(l.t.Context(), l.product, end.OrderID, restock, ledger.Part{})
			testkit.IsError(l.t, err, stock.ErrReturnUnsupported, "a return")
		}
		testkit.IsError(l.t, hold(), stock.ErrReservationUnsupported, "a hold")
		for _, one := range []stock.Store{stock.Redis, stock.SQL} {
			_, err := r.Adjust(l.t.Context(), l.product, one, ledger.Adjustment{Delta: 1, Key: []byte("one side")})
			testkit.IsError(l.t, err, stock.ErrAdjustUnsupported, "an adjustment of %s alone", one)
		}
		l.WantBooks(l.t, l.product, stock.SQL, stocktest.Books{Initial: 9, Stock: 8, Sold: 1, Orders: 1})
		l.wantFront(8, 1)
		l.SetStock(l.t, l.product, 9, 0)
		testkit.Must(l.t, hold())
		r.Refuse(l.t, stock.ErrReservationUnsupported, "redis-stream", stock.SQL, l.product, 1, "")
	})
}

// A replica that ends writes what it has read, and leaves the rest to the others: nothing stays pending in its name.
func TestClosingReplicaEndsItsTickets(t *testing.T) {
	t.Parallel()
	onEachLine(t, 9, ledger.Rules{}, func(l aLine) {
		l.consume()
		lock := l.Replicas[0].Set.DB.Begin() // of the product: the consumer waits for it in its UPDATE
		testkit.Must(l.t, lock.Exec("UPDATE product_stock SET version = version + 1 WHERE id = ?", l.product).Error)
		ids := []string{l.win("", ""), l.win("", "")}
		closing := l.Replicas[2]
		testkit.Until(l.t, "the consumer has read the tickets", func() bool { return l.pending(closing) == 2 })
		closed := make(chan error, 1)
		go func() { closed <- closing.Close(l.t.Context()) }()
		late := l.win("", "")
		testkit.Must(l.t, lock.Rollback().Error)
		testkit.Is(l.t, <-closed, nil, "Close()")
		testkit.Is(l.t, l.pending(closing), 0, "tickets that the closed replica has read and not ended")
		l.wantEnds(ledger.TicketSold, ids...)
		l.consume()
		l.wantEnds(ledger.TicketSold, late)
	})
}

// A message that is delivered twice is sold twice by redis-then-mq, so that the next buyer who is promised a unit gets
// none. A limit per buyer it refuses, as every mode does that does not look at it.
func TestMessageDeliveredTwice(t *testing.T) {
	t.Parallel()
	onEachLine(t, 2, ledger.Rules{}, func(l aLine) {
		buy := func() string {
			r, err := l.Replicas[0].Deduct(l.t.Context(), "redis-then-mq", stock.SQL, l.product, 1, "")
			testkit.Must(l.t, err)
			return stock.TicketID(l.product, r.OrderID)
		}
		first := buy()
		read, _, err := l.tickets.Read(l.t.Context(), l.product, "dead", time.Hour, 1)
		testkit.Must(l.t, err)
		testkit.Must(l.t, l.tickets.Send(read[0].Order))
		l.consume()
		orders := func() int {
			all, err := l.Replicas[0].Ledger(l.t.Context(), l.product)
			testkit.Must(l.t, err)
			return len(all.Facts[stock.SQL].Orders)
		}
		testkit.Until(l.t, "both were sold", func() bool { return orders() == 2 })
		if end := l.ends(first); end.State != ledger.TicketSold || stock.TicketID(l.product, end.OrderID) == first {
			l.t.Errorf("the ticket = %+v, want sold, by an order with an id of its own", end)
		}
		l.wantEnds(ledger.TicketRefused, buy())
		testkit.Is(l.t, orders(), 2, "orders")
		l.wantFront(1, 1)
		limited := l.ProductWith(l.t, 2, ledger.Rules{PerBuyer: 1})
		l.Replicas[0].Refuse(l.t, stock.ErrReservationUnsupported, "redis-then-mq", stock.SQL, limited, 1, "")
	})
}
