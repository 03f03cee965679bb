package redisdb_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
	"lastitem/internal/store/redisdb"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

// redisHolds plays with the reservations of product 1, whose stock is 5 at first.
type redisHolds struct {
	testing.TB
	s     *redisdb.Store
	r     *redisdb.Reservations
	space string // of names: payments outlive a run
}

func holdsIn(t testing.TB, s *redisdb.Store) redisHolds {
	return redisHolds{TB: t, s: s, r: redisdb.NewReservations(s, 7*24*time.Hour)}
}

func (h redisHolds) id(name string) string { return "redis-1-" + h.space + name }

func (h redisHolds) reset(rules ledger.Rules) {
	h.Helper()
	testkit.Must(h.TB, h.s.Reset(h.Context(), 1, 5, rules, noKeys))
}

// aHold is a reservation of product 1. Its key is the name, unless that has a '-', and its buyer the name up to a '/'.
func (h redisHolds) aHold(name string, units int64) ledger.Reservation {
	item := ledger.ReservationItem{ProductID: 1, Quantity: units}
	made := ledger.Reservation{ID: h.id(name), Mode: "m", Replica: "r 1", Items: []ledger.ReservationItem{item}}
	if !strings.Contains(name, "-") {
		made.Key, made.Fingerprint = []byte("\xff"+name), fmt.Append(nil, name, units)
	}
	made.Buyer, _, _ = strings.Cut(name, "/")
	return made
}

// do makes a move, and says what came of it.
func (h redisHolds) do(move string) string {
	h.Helper()
	f := append(strings.Fields(move), "", "")
	replica, until := "r 2", time.Minute
	switch verb, name := f[0], f[1]; verb {
	case "hold", "brief", "again":
		if verb == "brief" {
			until = 20 * time.Millisecond
		}
		var units int64
		_, err := fmt.Sscan(f[2], &units)
		testkit.Must(h.TB, err)
		made := h.aHold(name, units)
		if verb == "again" { // the client repeats its request
			made.ID += "-again"
		}
		made, left, earlier, err := h.r.Reserve(h.Context(), made, until)
		return told(err, made.State, fmt.Sprint(left), map[bool]string{true: "earlier"}[earlier])
	case "confirm", "repeat":
		order := map[string]string{"confirm": "o", "repeat": "another "}[verb] + f[2]
		e, err := h.r.Confirm(h.Context(), h.id(name), replica, order, []byte(h.space+f[2]))
		refund, replay := map[bool]string{true: "refund"}[e.Refund], map[bool]string{true: "replay"}[e.Replay]
		return told(err, e.Reservation.State, e.OrderID, refund, replay)
	case "cancel":
		e, err := h.r.Cancel(h.Context(), h.id(name), replica)
		return told(err, e.Reservation.State)
	case "extend":
		until, err := time.ParseDuration(f[2])
		testkit.Must(h.TB, err)
		e, err := h.r.Extend(h.Context(), h.id(name), replica, until)
		by := time.Duration(e.Reservation.ExpiresMicros-e.Reservation.ExtendedMicros) * time.Microsecond
		return told(err, e.Reservation.State, map[bool]string{true: fmt.Sprint("by ", by)}[e.Reservation.ExtendedMicros > 0])
	case "late":
		time.Sleep(25 * time.Millisecond) // to read it would end it
		return ""
	case "read":
		read, err := h.r.Read(h.Context(), h.id(name), replica)
		return told(err, read.State)
	case "sweep":
		n, err := h.r.Sweep(h.Context(), 100, replica)
		return told(err, "", fmt.Sprint(n))
	case "restock", "write-off":
		n, restocked, err := h.r.Return(h.Context(), 1, "o"+name, verb == "restock")
		return told(err, "", fmt.Sprint(n, restocked))
	case "sell":
		s := sale("s", "", 1)
		s.Orders[0].ID = "os"
		_, err := h.s.Sell(h.Context(), s)
		return told(err, "")
	case "reset":
		h.reset(ledger.Rules{})
		return ""
	}
	h.Fatalf("no move %q", move)
	return ""
}

// told renders an outcome.
func told(err error, state ledger.ReservationState, more ...string) string {
	for name, known := range map[string]error{
		"no hold": store.ErrNoReservation, "no order": store.ErrNoOrder, "payment reused": store.ErrPaymentReused,
		"key reused": idempotency.ErrKeyReused, "unknown": store.ErrUnknownProduct,
		"segmented": store.ErrReservationUnsupported,
	} {
		if errors.Is(err, known) {
			return name
		}
	}
	if short, ok := errors.AsType[*ledger.ShortError](err); ok && errors.Is(err, store.ErrLimit) {
		return fmt.Sprint("limit ", short.Available)
	} else if ok {
		return fmt.Sprint("short ", short.Available)
	}
	if err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(string(state)+" "+strings.Join(more, " ")), " ")
}

// sound checks that no unit is lost or made, and that the rows say the same as the counts.
func (h redisHolds) sound(when string) ledger.Reservations {
	h.Helper()
	s, err := h.r.Page(h.Context(), 1, "")
	testkit.Must(h.TB, err)
	if s.Stock+s.Held+s.Ordered+s.WrittenOff != s.Initial {
		h.Errorf("%s: %d in stock, %d held, %d ordered, %d written off, not %d", when, s.Stock, s.Held, s.Ordered,
			s.WrittenOff, s.Initial)
	}
	var held int64
	buyers := map[string]int64{}
	for _, r := range s.Rows {
		was := ledger.ReservationState("")
		for _, e := range r.Events {
			if e.Was != was || e.AtMicros < r.CreatedMicros || (e.Now == ledger.Expired) != (e.CommittedMicros > 0) {
				h.Errorf("%s: %s has the events %+v", when, r.ID, r.Events)
			}
			was = e.Now
		}
		orders := 0
		for _, p := range r.Payments {
			if p.OrderID != "" {
				orders++
			}
		}
		if was != r.State || orders != len(r.Orders) || (r.State == ledger.Confirmed) != (orders == 1) {
			h.Errorf("%s: %s is %s with the events %+v, payments %+v, orders %+v", when, r.ID, r.State, r.Events, r.Payments,
				r.Orders)
		}
		q := r.Items[0].Quantity
		if r.State == ledger.Held {
			held += q
		}
		back := slices.ContainsFunc(r.Orders, func(o ledger.ReservationOrder) bool { return o.Returned })
		if s.PerBuyer > 0 && r.Buyer != "" && (r.State == ledger.Held || r.State == ledger.Confirmed) && !back {
			buyers[r.Buyer] += q
		}
	}
	if diff := cmp.Diff(buyers, s.BuyerUnits); held != s.Held || diff != "" {
		h.Errorf("%s: %d held, the rows have %d; units of buyers (-rows +counts):\n%s", when, s.Held, held, diff)
	}
	return s
}

// Each arrow of the state machine, and what its repetition answers; after each move the books are right.
func TestRedisHoldArrows(t *testing.T) {
	type H = ledger.Rules
	onClustersToo(t, func(t *testing.T, r *redisdb.Store, _ bool) {
		h := holdsIn(t, r)
		for i, c := range []struct {
			name  string
			rules H
			moves string
		}{
			{"hold and pay", H{}, `hold a 2 = held 3; hold a 2 = held 3; again a 2 = held 3 earlier; again a 3 = key reused
				hold b 4 = short 3; read a = held
				confirm a p = confirmed op; repeat a p = confirmed op replay; confirm a q = confirmed refund; cancel a = confirmed
				repeat a q = confirmed refund replay; extend a 1h = confirmed; again a 2 = held 3 earlier; read none = no hold`},
			{"cancel", H{}, `hold a 2 = held 3; cancel a = cancelled; cancel a = cancelled; confirm a p = cancelled refund
				repeat a p = cancelled refund replay; hold b 5 = held 0; confirm b p = payment reused; confirm b q = confirmed oq
				cancel none = no hold; confirm none r = no hold; extend none 1h = no hold`},
			{"the sweeper", H{}, `brief a 2 = held 3; hold b 1 = held 2; late a = ; sweep = 1; read a = expired; sweep = 0
				confirm a p = expired refund; repeat a p = expired refund replay; again a 2 = held 3 earlier
				read a = expired; hold c 4 = held 0`},
			{"a late cancel", H{}, `brief a 2 = held 3; late a = ; cancel a = expired; cancel a = expired; sweep = 0
				hold b 5 = held 0`},
			{"a late extension", H{}, `brief a 2 = held 3; late a = ; extend a 1h = expired; extend a 1h = expired; sweep = 0`},
			{"a late payment", H{}, `brief a 2 = held 3; late a = ; confirm a p = expired refund; sweep = 0; hold b 5 = held 0`},
			{"a late payment gets the units", H{Late: ledger.LateRehold}, `brief a 3 = held 2; late a =
				confirm a p = confirmed op
				brief b 2 = held 0; late b = ; sweep = 1; confirm b q = confirmed oq`},
			{"a late payment, and the units are gone", H{Late: ledger.LateRehold}, `brief a 3 = held 2; late a = ; sweep = 1
				hold b 3 = held 2; confirm a p = expired refund; cancel b = cancelled; repeat a p = expired refund replay
				confirm a q = confirmed oq`},
			{"a cancel wins over a late payment", H{Late: ledger.LateRehold}, `brief a 1 = held 4; late a = ; cancel a = expired
				confirm a p = expired refund; brief b 1 = held 4; late b = ; sweep = 1; cancel b = expired
				confirm b q = expired refund`},
			{"what was told stays", H{}, `brief a 1 = held 4; late a = ; read a = expired; reset = ; read a = expired`},
			{"extend", H{}, `hold a 1 = held 4; extend a 1h = held by 1h0m0s; extend a 3h = held by 1h0m0s
				confirm a p = confirmed op; sweep = 0`},
			{"a new run", H{}, `hold a 2 = held 3; hold b 1 = held 2; confirm b p = confirmed op; brief c 1 = held 1; reset = 
				read a = void; sweep = 0; confirm a q = void refund; repeat a q = void refund replay; cancel a = void
				extend a 1h = void; 				repeat b p = confirmed op replay; restock p = no order
				cancel c = void; hold d 5 = held 0; reset = ; read d = void
				read a = no hold; confirm a r = no hold; repeat b p = confirmed op replay`},
			{"returns", H{}, `hold a 2 = held 3; confirm a p = confirmed op; restock p = 2 true; write-off p = 2 true
				hold b 1 = held 4; confirm b q = confirmed oq; write-off q = 1 false; restock q = 1 false; sell =
				restock s = 1 true; restock none = no order; repeat a p = confirmed op replay; hold c 4 = held 0`},
			{"a limit per buyer", H{PerBuyer: 2}, `hold x/1 1 = held 4; hold x/2 1 = held 3; hold x/3 1 = limit 2
				hold y/1 2 = held 1; confirm x/1 p = confirmed op; hold x/4 1 = limit 2; cancel x/2 = cancelled
				hold x/5 2 = limit 2; hold x/5 1 = held 1; restock p = 1 true; brief x/7 1 = held 1; late x/7 =
				hold x/8 1 = limit 2; sweep = 1; hold x/8 1 = held 1; confirm x/8 q = confirmed oq; hold x/9 1 = limit 2
				write-off q = 1 false; hold x/9 1 = held 0`},
			{"a late payment above the limit", H{PerBuyer: 1, Late: ledger.LateRehold}, `brief x/1 1 = held 4; late x/1 =
				sweep = 1; hold x/2 1 = held 4; confirm x/1 p = expired refund; cancel x/2 = cancelled
				confirm x/1 q = confirmed oq`},
		} {
			h.space = fmt.Sprint(i, ".")
			h.reset(c.rules)
			h.play(c.name, c.moves)
		}
		h.space = "absolute."
		h.reset(H{}) // a write of a count that was read before the first hold
		h.play("an absolute write", "hold a 1 = held 4; brief b 1 = held 3; late b =")
		testkit.Must(t, r.Set(t.Context(), 1, 2))
		for _, move := range []string{"cancel a", "confirm a p", "sweep"} {
			if got := h.do(move); !strings.Contains(got, "the count is lost") {
				t.Errorf("after an absolute write %s = %s", move, got)
			}
		}
		h.play("the stock is set again", "reset = ; read a = void; hold c 5 = held 0")
		reset(t, r, 1, 5, 2)
		if got := h.do("hold a 1"); got != "segmented" {
			t.Errorf("a hold of a segmented product = %s", got)
		}
	})
}

// However many payments there are and however often the stock is set, a payment has the end that it had.
func TestRedisPaymentsAreNotForgotten(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, s *testenv.RedisServer) {
		h := holdsIn(t, r)
		h.reset(ledger.Rules{})
		h.play("paid", "hold a 1 = held 4; confirm a p = confirmed op; hold b 1 = held 3; cancel b = cancelled")
		var others []any
		for i := range 6000 {
			others = append(others, fmt.Sprint("x", i), "redis-1-x o 1")
		}
		testkit.Must(t, s.Client.HSet(t.Context(), s.Prefix+"payments:{1}", others...).Err())
		h.play("refunded", "confirm b q = cancelled refund; reset = ; reset = ; reset =")
		h.play("asked", `repeat a p = confirmed op replay; confirm b q = cancelled refund replay; hold c 1 = held 4
			confirm c q = payment reused; confirm c p = payment reused`)
	})
}

// A return of an order that is not there does not read the whole list each time, and finds each that is, in every run.
func TestRedisFindsOrders(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, s *testenv.RedisServer) {
		reset(t, r, 1, 5, 0)
		h, list := holdsIn(t, r), s.Prefix+"orders:{1}"
		var rows []any
		for i := range 3500 {
			rows = append(rows, fmt.Sprintf(`{"id":"o%04d","product_id":1,"quantity":1,"mode":"m","replica":"r","created_us":1}`,
				i))
		}
		testkit.Must(t, s.Client.RPush(t.Context(), list, rows...).Err())
		h.play0(t, "restock 9999 = no order; restock 0500 = 1 true; restock 3400 = 1 true")
		// a page in the middle that was read once is not read again for an id that cannot be there
		other := strings.ReplaceAll(rows[1500].(string), "o1500", "o7777")
		testkit.Must(t, s.Client.LSet(t.Context(), list, 1500, other).Err())
		h.play0(t, "restock 7777 = no order; restock 1501 = 1 true")
		reset(t, r, 1, 5, 0)
		testkit.Must(t, s.Client.RPush(t.Context(), list, rows[7], rows[1]).Err())
		h.play0(t, "restock 0001 = 1 true; restock 0500 = no order")
	})
}

// play0 makes moves without a look at the books.
func (h redisHolds) play0(t *testing.T, moves string) {
	for line := range strings.SplitSeq(moves, ";") {
		move, want, _ := strings.Cut(strings.TrimSpace(line), " = ")
		if got := h.do(move); got != want {
			t.Errorf("%s = %q, want %q", move, got, want)
		}
	}
}

// Forty buyers reach for the last unit at the same time, two payments and a sweep or a cancel for the same reservation.
func TestRedisHoldsRace(t *testing.T) {
	onClustersToo(t, func(t *testing.T, r *redisdb.Store, _ bool) {
		h := holdsIn(t, r)
		all := func(n int, try func(i int) string) (said []string) {
			var group sync.WaitGroup
			said = make([]string, n)
			for i := range n {
				group.Go(func() { said[i] = try(i) })
			}
			group.Wait()
			slices.Sort(said)
			return said
		}
		h.reset(ledger.Rules{PerBuyer: 4})
		h.do("hold z 4")
		won := slices.DeleteFunc(all(40, func(i int) string { return h.do(fmt.Sprintf("hold x%d/1 1", i)) }),
			func(s string) bool { return s == "short 0" })
		if !slices.Equal(won, []string{"held 0"}) {
			t.Errorf("of 40 holds of the last unit these were not sold out: %q, want one", won)
		}
		h.reset(ledger.Rules{PerBuyer: 4})
		won = slices.DeleteFunc(all(10, func(i int) string { return h.do(fmt.Sprintf("hold x/%d 1", i)) }),
			func(s string) bool { return strings.HasPrefix(s, "limit") })
		if len(won) != 4 {
			t.Errorf("10 holds of a buyer who may have 4: %q", won)
		}
		h.sound("a buyer's double clicks")
		if won = all(8, func(int) string { return h.do("hold x/same 1") }); strings.HasPrefix(won[0], "held") {
			t.Errorf("holds above the limit: %q", won)
		}
		for round := range 20 {
			h.reset(ledger.Rules{})
			id := fmt.Sprint("h", round)
			first := []string{"hold ", "brief "}[round%2] + id + " 5"
			if said := all(3, func(int) string { return h.do(first) }); said[0] != "held 0" || said[2] != "held 0" {
				t.Fatalf("the same hold three times = %q, want one", said)
			}
			last := []string{"cancel " + id, "sweep"}[round%2]
			all(4, func(i int) string {
				time.Sleep(time.Duration(round%5*i) * 2 * time.Millisecond)
				return h.do([]string{"confirm " + id + " p" + id, "confirm " + id + " q" + id, last, last}[i])
			})
			s := h.sound(last)
			if n := len(s.Rows[0].Payments); n != 2 {
				t.Errorf("%d payments have an end, want 2", n)
			}
		}
		h.do("reset")
		other := h.aHold("a", 1)
		other.ID, other.Items[0].ProductID = "redis-2-a", 2
		reset(t, r, 2, 5, 0)
		h.do("hold a 1")
		_, _, _, err := h.r.Reserve(t.Context(), other, time.Minute)
		other.Key = []byte("another")
		_, _, _, made := h.r.Reserve(t.Context(), other, time.Minute)
		h.do("confirm a p")
		_, paid := h.r.Confirm(t.Context(), other.ID, "r", "o2", []byte("p"))
		got := []string{told(err, ""), told(made, ""), told(paid, "")}
		if !slices.Equal(got, []string{"key reused", "", "payment reused"}) {
			t.Errorf("key and payment of another product = %q", got)
		}
	})
}

// play makes moves, "move = what must come of it; ...", and looks at the books after each.
func (h redisHolds) play(name, moves string) {
	h.Helper()
	for _, line := range strings.Split(strings.ReplaceAll(moves, "\n", ";"), ";") {
		move, want, _ := strings.Cut(strings.TrimSpace(line), "=")
		got := strings.ReplaceAll(h.do(move), h.id(""), "")
		if want = strings.TrimSpace(want); got != want {
			h.Errorf("%s: %s= %q, want %q", name, move, got, want)
		}
		h.sound(name + ": " + move)
	}
}

// The orders of reservations are read as those of sales, and the books of a product have what is held and came back.
func TestRedisHoldsInTheBooks(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, _ *testenv.RedisServer) {
		h := holdsIn(t, r)
		h.reset(ledger.Rules{})
		h.play("books", `sell = ; hold a 2 = held 2; confirm a p = confirmed op; hold b 1 = held 1; restock s = 1 true
			write-off p = 2 false`)
		f, _, err := r.Snapshot(t.Context(), 1, ledger.Want{Orders: 9})
		f.Stock += 10 * (f.Held + 10*f.WrittenOff + 100*f.Restocked)
		if err != nil || f.Totals != (ledger.Totals{Orders: 2, Units: 3}) || f.Stock != 1212 {
			t.Fatalf("Snapshot() = %+v, %v, want two orders, one unit held, two written off, one put back", f, err)
		}
		o := f.Orders[1]
		at := o.CreatedMicros
		want := ledger.Order{ID: "op", ProductID: 1, Quantity: 2, Mode: "m", Replica: "r 2", Key: []byte("p"),
			CreatedMicros: at, Buyer: "a", ReservationID: h.id("a")}
		if diff := cmp.Diff(want, o); diff != "" || time.Since(time.UnixMicro(at)).Abs() > time.Hour {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		hold := func(made ledger.Reservation) error {
			_, _, _, err := h.r.Reserve(t.Context(), made, time.Minute)
			return err
		}
		cart, foreign, unknown := h.aHold("cart", 1), h.aHold("x", 1), h.aHold("y", 1)
		cart.Items = append(cart.Items, ledger.ReservationItem{ProductID: 2, Quantity: 1})
		foreign.Items[0].ProductID = 2
		unknown.ID, unknown.Items[0].ProductID = "redis-77-y", 77
		if err := hold(cart); !errors.Is(err, store.ErrCrossSlot) {
			t.Errorf("a cart = %v, want ErrCrossSlot", err)
		}
		if err := hold(foreign); err == nil {
			t.Error("a hold under the id of another product = nil")
		}
		if err := hold(unknown); !errors.Is(err, store.ErrUnknownProduct) {
			t.Errorf("an unknown product = %v", err)
		}
		for _, id := range []string{"sql-1-a", "redis-1", "redis-x-a", "redis-77-a", ""} {
			if _, err := h.r.Read(t.Context(), id, "r"); !errors.Is(err, store.ErrNoReservation) {
				t.Errorf("Read(%q) = %v, want ErrNoReservation", id, err)
			}
		}
		all := h.sound("pages")
		page, err := h.r.Page(t.Context(), 1, all.Rows[0].ID)
		if diff := cmp.Diff(all.Rows[1:], page.Rows); err != nil || diff != "" || len(page.Rows) != 1 {
			t.Errorf("the page after the first: %v (-want +got):\n%s", err, diff)
		}
	})
}

// If memory is full, nothing new is held, and all that ends a reservation works: otherwise its units were lost, and who
// has paid would get nothing.
func TestRedisHoldsWhereMemoryIsFull(t *testing.T) {
	t.Parallel()
	node := testenv.RedisNodes(t, 1, "maxmemory-policy noeviction")[0]
	c, err := backend.OpenRedis(node.URL, 4)
	testkit.Must(t, err)
	defer c.Close()
	h := holdsIn(t, redisdb.New(c, "p:"))
	h.reset(ledger.Rules{})
	h.play("free", `hold a 1 = held 4; hold b 1 = held 3; brief c 1 = held 2; hold d 1 = held 1
		confirm d p = confirmed op; late c =`)
	testkit.Must(t, c.ConfigSet(t.Context(), "maxmemory", "1").Err())
	if got := h.do("hold e 1"); !strings.Contains(got, "OOM") {
		t.Errorf("a hold = %s, want that memory is full", got)
	}
	h.play("full", `cancel b = cancelled; confirm b r = cancelled refund; sweep = 1; confirm a q = confirmed oq
		restock p = 1 true`)
	h.reset(ledger.Rules{PerBuyer: 1})
	testkit.Must(t, c.ConfigSet(t.Context(), "maxmemory", "0").Err())
	h.play("free again", "read a = confirmed; hold x/1 1 = held 4; hold x/2 1 = limit 1")
}

// A Redis that cannot save refuses every write: nothing ends, and nothing is lost. A sweep goes on when there is room.
func TestRedisHoldsWhereDiskIsFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	room := filepath.Join(dir, "dump.rdb", "in the way")
	node := testenv.RedisNodes(t, 1, "dir "+dir, "save 3600 1000000")[0]
	c, err := backend.OpenRedis(node.URL, 4)
	testkit.Must(t, err)
	defer c.Close()
	save := func(want string) {
		testkit.Until(t, "the last save was "+want, func() bool {
			c.BgSave(t.Context())
			return strings.Contains(c.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:"+want)
		})
	}
	h := holdsIn(t, redisdb.New(c, "p:"))
	h.reset(ledger.Rules{})
	h.play("free", "brief a 1 = held 4; brief b 2 = held 2; late b =")
	testkit.Must(t, os.MkdirAll(room, 0o700))
	save("err")
	for _, move := range []string{"sweep", "cancel a", "confirm a p"} {
		if got := h.do(move); !strings.Contains(got, "MISCONF") {
			t.Errorf("%s = %s, want that Redis cannot save", move, got)
		}
	}
	if s := h.sound("full"); s.Held != 3 {
		t.Errorf("%d held, want 3", s.Held)
	}
	testkit.Must(t, os.RemoveAll(filepath.Dir(room)))
	save("ok")
	h.play("free again", "sweep = 2; read b = expired; confirm a p = expired refund")
}

// A lost answer is asked for again, and what was done is not done twice.
func TestRedisHoldsLostReply(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	direct := holdsIn(t, redisdb.New(s.Client, s.Prefix))
	direct.reset(ledger.Rules{})
	p, client := behindGate(t, s)
	through := holdsIn(t, redisdb.New(client, s.Prefix))
	for i, line := range strings.Split(`hold a 2 = held 3; confirm a p = confirmed op; hold b-c 1 = held 2
		cancel b-c = cancelled; hold d 1 = held 2; extend d 1h = held by 1h0m0s; restock p = 2 true
		brief e 1 = held 3; late e = ; sweep = 0`, ";") {
		for _, line := range strings.Split(line, "\n") {
			move, want, _ := strings.Cut(strings.TrimSpace(line), "=")
			direct.space, through.space = "warm", ""
			if i == 0 {
				direct.play("warm", `hold w 1 = held 4; extend w 1h = held by 1h0m0s; confirm w pw = confirmed opw
					restock pw = 1 true; cancel w = confirmed; sweep = 0`)
			}
			if strings.HasPrefix(move, "late") {
				through.do(move)
				continue
			}
			lost := storetest.Cut(t, p, "EVALSHA")
			if got := through.do(move); got != strings.TrimSpace(want) || !storetest.WasCut(lost) {
				t.Errorf("%swithout an answer (%t) = %q, want %q", move, storetest.WasCut(lost), got, want)
			}
			direct.sound(move)
		}
	}
}

// The sweeper finds the products that nobody has announced, and leaves out what it cannot read.
func TestRedisSweepsWhatIsDamaged(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, s *testenv.RedisServer) {
		h := holdsIn(t, r)
		h.reset(ledger.Rules{})
		h.play("sweep", "brief c 1 = held 4; brief b 1 = held 3; late b = ; brief a 1 = held 2; late a =")
		if d, err := h.r.Overdue(t.Context()); d <= 0 || d > time.Minute || err != nil {
			t.Errorf("Overdue() = %v, %v, want how long the first has been", d, err)
		}
		if n, err := h.r.Sweep(t.Context(), 1, "r"); n != 1 || err != nil {
			t.Errorf("Sweep(1) = %d, %v, want 1", n, err)
		}
		s.Client.HSet(t.Context(), s.Prefix+"holds:{1}", h.id("a"), "{")
		s.Client.ZAdd(t.Context(), s.Prefix+"due:{1}", redis.Z{Score: 1, Member: h.id("ghost")})
		s.Client.Del(t.Context(), s.Prefix+"holding")
		other := holdsIn(t, redisdb.New(s.Client, s.Prefix))
		n, err := other.r.Sweep(t.Context(), 100, "r")
		if n != 3 || err == nil || !strings.Contains(err.Error(), h.id("a")) || !strings.Contains(err.Error(), "ghost") {
			t.Errorf("Sweep() = %d, %v, want 3, of which two are damaged", n, err)
		}
		if b, again := other.do("read b"), other.do("sweep"); b != "expired" || again != "0" {
			t.Errorf("then the sound one is %s, and Sweep() = %s", b, again)
		}
		if d, err := h.r.Overdue(t.Context()); d != 0 || err != nil {
			t.Errorf("Overdue() = %v, %v, want none", d, err)
		}
		h.do("brief d 1")
		h.do("late d")
		s.Client.Del(t.Context(), s.Prefix+"stock:{1}")
		for _, move := range []string{"cancel d", "confirm d p", "extend d 1h", "read d", "sweep"} {
			got, due := h.do(move), s.Client.ZCard(t.Context(), s.Prefix+"due:{1}").Val()
			if !strings.Contains(got, "the count is lost") || due != 1 {
				t.Errorf("%s without a count = %s, %d due; want an error, and that nothing is done", move, got, due)
			}
		}
	})
}

// Closed reservations are kept while a payment may come for them, and then deleted.
func TestRedisHoldsRetention(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	c := redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1})
	defer c.Close()
	h := holdsIn(t, redisdb.New(c, ""))
	begin := time.Now()
	m.SetTime(begin)
	h.reset(ledger.Rules{Late: ledger.LateRehold})
	h.play("begin", "hold late 1 = held 4")
	h.reset(ledger.Rules{})
	h.play("begin", `hold a-1 1 = held 4; cancel a-1 = cancelled; hold b 1 = held 4; cancel b = cancelled
		confirm b p = cancelled refund; hold c 1 = held 4; confirm c q = confirmed oq; hold a-2 1 = held 3`)
	m.SetTime(begin.Add(2 * time.Hour))
	h.play("two hours", `sweep = 1; read a-1 = no hold; read a-2 = expired; again b 1 = held 4 earlier
		repeat b p = cancelled refund replay; read late = void`)
	m.SetTime(begin.Add(8 * 24 * time.Hour))
	h.play("eight days", "sweep = 2; read b = no hold; repeat c q = confirmed oq replay; hold b 1 = held 3")
	h.reset(ledger.Rules{Late: ledger.LateRehold})
	h.play("late", "hold d 1 = held 4")
	m.SetTime(begin.Add(8*24*time.Hour + 2*time.Hour))
	h.play("late", "sweep = 1")
	m.SetTime(begin.Add(15*24*time.Hour + time.Hour)) // it is still there, and its first payment may be forgotten
	h.play("too late", "read d = expired; confirm d r = expired refund; sweep = 0")
}
