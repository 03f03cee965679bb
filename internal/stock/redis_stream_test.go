package stock_test

import (
	"fmt"
	"testing"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/stock"
	"lastitem/internal/store/redisdb"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
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
			env := e.Open(t)
			env.Idle = 2
			h := stocktest.Open(t, env, 2, stock.Modes())
			test(aLine{h, t, redisdb.NewTickets(h.Replicas[0].Backends.Redis), env.Prefix, h.ProductWith(t, units, rules)})
		})
	}
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
	onEachLine(t, 9, ledger.Rules{}, func(l aLine) {
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
	})
}

// wantFront compares what Redis has.
func (l aLine) wantFront(left, passed int64) {
	l.t.Helper()
	all, err := l.Replicas[0].Ledger(l.t.Context(), l.product)
	testkit.Must(l.t, err)
	if f := all.Facts[stock.Redis]; f.Stock != left || f.Passed != passed || f.InFlight != 0 {
		l.t.Errorf("Redis has %d left and %d passed, %d in flight; want %d and %d", f.Stock, f.Passed, f.InFlight, left, passed)
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
		l.redis("DEL", "answers", "answers-old")
		testkit.Must(l.t, l.Replicas[0].Set.Client.Del(l.t.Context(), l.prefix+"key:"+key).Err())
		second := l.win(key, "")
		if end := l.ends(second); end.State != ledger.TicketSame || stock.TicketID(l.product, end.OrderID) != first {
			l.t.Errorf("the second ticket of a key = %+v, want same, with the order of %s", end, first)
		}
		l.WantBooks(l.t, l.product, stock.SQL, stocktest.Books{Initial: 9, Stock: 8, Sold: 1, Orders: 1})
		l.wantFront(8, 1)
	})
}

// What SQL has not got is refused, and goes back.
func TestTicketThatSQLRefuses(t *testing.T) {
	t.Parallel()
	onEachLine(t, 3, ledger.Rules{PerBuyer: 2}, func(l aLine) {
		ids := []string{l.win("", "b"), l.win("", "b"), l.win("", "c")}
		_, err := l.Replicas[0].Adjust(l.t.Context(), l.product, stock.SQL, ledger.Adjustment{Delta: -2, Key: []byte("k")})
		testkit.Must(l.t, err)
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

// While nobody consumes tickets queue up to the limit; beyond it nothing is deducted. A new setting voids them.
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
