package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/idempotency"
	"lastitem/internal/ledger"
	"lastitem/internal/store"
	"lastitem/internal/testkit"
)

// redisHolds plays with the reservations of product 1, whose stock is 5 at first.
type redisHolds struct {
	testing.TB
	r     *store.Redis
	space string // of names: payments outlive a run
}

func (h redisHolds) id(name string) string { return "redis-1-" + h.space + name }

func (h redisHolds) reset(rules store.HoldRules) {
	h.Helper()
	testkit.Must(h.TB, h.r.ResetTo(h.Context(), 1, 5, 0, rules, noKeys))
}

// aHold is a reservation of product 1; a key is the name unless that has a '-'. The buyer is the part of the name before
// a '/'.
func (r redisHolds) aHold(name string, units int64) ledger.Hold {
	h := ledger.Hold{ID: r.id(name), Mode: "m", Replica: "r 1", Items: []ledger.HoldItem{{ProductID: 1, Quantity: units}}}
	if !strings.Contains(name, "-") {
		h.Key, h.Fingerprint = []byte("\xff"+name), fmt.Append(nil, name, units)
	}
	h.Buyer, _, _ = strings.Cut(name, "/")
	return h
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
	case "confirm":
		e, err := h.r.Confirm(h.Context(), h.id(name), replica, "o"+f[2], []byte(h.space+f[2]))
		return told(err, e.Hold.State, e.OrderID, map[bool]string{true: "refund"}[e.Refund])
	case "cancel":
		e, err := h.r.Cancel(h.Context(), h.id(name), replica)
		return told(err, e.Hold.State)
	case "extend":
		e, err := h.r.Extend(h.Context(), h.id(name), replica, time.Hour)
		return told(err, e.Hold.State)
	case "late":
		testkit.Until(h.TB, name+" is overdue", func() bool { return h.do("read "+name) == "expired" })
		return ""
	case "read":
		read, err := h.r.ReadHold(h.Context(), h.id(name))
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
		_, err := h.r.Sell(h.Context(), s)
		return told(err, "")
	case "reset":
		h.reset(store.HoldRules{})
		return ""
	}
	h.Fatalf("no move %q", move)
	return ""
}

// told renders an outcome.
func told(err error, state ledger.HoldState, more ...string) string {
	for name, known := range map[string]error{
		"no hold": store.ErrNoHold, "no order": store.ErrNoOrder, "payment reused": store.ErrPaymentReused,
		"key reused": idempotency.ErrKeyReused, "unknown": store.ErrUnknownProduct, "segmented": store.ErrHoldsUnsupported,
	} {
		if errors.Is(err, known) {
			return name
		}
	}
	if short, ok := errors.AsType[*store.ShortError](err); ok && errors.Is(err, store.ErrLimit) {
		return strings.Join(append([]string{"limit"}, short.Holders...), " ")
	} else if ok {
		return fmt.Sprint("short ", short.Available)
	}
	if err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(string(state)+" "+strings.Join(more, " ")), " ")
}

// sound checks that no unit is lost or made, and that the rows say the same as the counts.
func (h redisHolds) sound(when string) store.Holds {
	h.Helper()
	s, err := h.r.Reservations(h.Context(), 1, "")
	testkit.Must(h.TB, err)
	if s.Stock+s.Held+s.Ordered+s.WrittenOff != s.Initial {
		h.Errorf("%s: %d in stock, %d held, %d ordered, %d written off, not %d", when, s.Stock, s.Held, s.Ordered, s.WrittenOff,
			s.Initial)
	}
	var held int64
	buyers := map[string]int64{}
	for _, r := range s.Rows {
		was := ledger.HoldState("")
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
		back := slices.ContainsFunc(r.Orders, func(o store.HoldOrder) bool { return o.Restocked })
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
	type H = store.HoldRules
	onClustersToo(t, func(t *testing.T, r *store.Redis, _ bool) {
		h := redisHolds{TB: t, r: r}
		for i, c := range []struct {
			name  string
			rules H
			moves string
		}{
			{"hold and pay", H{}, `hold a 2 = held 3; hold a 2 = held 3; again a 2 = held 3 earlier; again a 3 = key reused; hold b 4 = short 3; read a = held
				confirm a p = confirmed op; confirm a p = confirmed op; confirm a q = confirmed refund; cancel a = confirmed
				confirm a q = confirmed refund; extend a = confirmed; again a 2 = held 3 earlier; read none = no hold`},
			{"cancel", H{}, `hold a 2 = held 3; cancel a = cancelled; cancel a = cancelled; confirm a p = cancelled refund
				confirm a p = cancelled refund; hold b 5 = held 0; confirm b p = payment reused; confirm b q = confirmed oq
				cancel none = no hold; confirm none r = no hold; extend none = no hold`},
			{"the sweeper", H{}, `brief a 2 = held 3; hold b 1 = held 2; late a = ; sweep = 1; read a = expired; sweep = 0
				confirm a p = expired refund; confirm a p = expired refund; again a 2 = held 3 earlier; read a = expired; hold c 4 = held 0`},
			{"a late cancel", H{}, `brief a 2 = held 3; late a = ; cancel a = expired; cancel a = expired; sweep = 0; hold b 5 = held 0`},
			{"a late extension", H{}, `brief a 2 = held 3; late a = ; extend a = expired; extend a = expired; sweep = 0`},
			{"a late payment", H{}, `brief a 2 = held 3; late a = ; confirm a p = expired refund; sweep = 0; hold b 5 = held 0`},
			{"a late payment gets the units", H{Late: ledger.LateRehold}, `brief a 3 = held 2; late a = ; confirm a p = confirmed op
				brief b 2 = held 0; late b = ; sweep = 1; confirm b q = confirmed oq`},
			{"a late payment, and the units are gone", H{Late: ledger.LateRehold}, `brief a 3 = held 2; late a = ; sweep = 1
				hold b 3 = held 2; confirm a p = expired refund; cancel b = cancelled; confirm a p = expired refund
				confirm a q = confirmed oq`},
			{"extend", H{}, `brief a 1 = held 4; extend a = held; extend a = held; confirm a p = confirmed op; sweep = 0`},
			{"a new run", H{}, `hold a 2 = held 3; hold b 1 = held 2; confirm b p = confirmed op; brief c 1 = held 1; reset = 
				read a = void; sweep = 0; confirm a q = void refund; confirm a q = void refund; cancel a = void; extend a = void
				confirm b p = confirmed op; restock p = no order; cancel c = void; hold d 5 = held 0; reset = ; read d = void`},
			{"returns", H{}, `hold a 2 = held 3; confirm a p = confirmed op; restock p = 2 true; write-off p = 2 true; hold b 1 = held 4
				confirm b q = confirmed oq; write-off q = 1 false; restock q = 1 false; sell = ; restock s = 1 true
				restock none = no order; confirm a p = confirmed op; hold c 4 = held 0`},
			{"a limit per buyer", H{PerBuyer: 2}, `hold x/1 1 = held 4; hold x/2 1 = held 3; hold x/3 1 = limit x/1 x/2
				hold y/1 2 = held 1; confirm x/1 p = confirmed op; hold x/4 1 = limit x/2; cancel x/2 = cancelled
				hold x/5 2 = limit; hold x/5 1 = held 1; restock p = 1 true; brief x/7 1 = held 1; late x/7 =
				hold x/8 1 = limit x/5 x/7; sweep = 1; hold x/8 1 = held 1; confirm x/8 q = confirmed oq; write-off q = 1 false
				hold x/9 1 = limit x/5; hold a-b 1 = held 0`},
			{"a late payment above the limit", H{PerBuyer: 1, Late: ledger.LateRehold}, `brief x/1 1 = held 4; late x/1 = ; sweep = 1
				hold x/2 1 = held 4; confirm x/1 p = expired refund; cancel x/2 = cancelled; confirm x/1 q = confirmed oq`},
		} {
			h.space = fmt.Sprint(i, ".")
			h.reset(c.rules)
			for _, line := range strings.Split(strings.ReplaceAll(c.moves, "\n", ";"), ";") {
				move, want, _ := strings.Cut(line, "=")
				got := h.do(move)
				if want = strings.TrimSpace(want); strings.ReplaceAll(got, h.id(""), "") != want {
					t.Errorf("%s: %s = %q, want %q", c.name, strings.TrimSpace(move), got, want)
				}
				h.sound(c.name + ": " + strings.TrimSpace(move))
			}
		}
		reset(t, r, 1, 5, 2)
		if got := h.do("hold a 1"); got != "segmented" {
			t.Errorf("a hold of a segmented product = %s", got)
		}
	})
}

// Forty buyers reach for the last unit at the same time, two payments and a sweep or a cancel for the same reservation.
func TestRedisHoldsRace(t *testing.T) {
	onClustersToo(t, func(t *testing.T, r *store.Redis, cluster bool) {
		h := redisHolds{TB: t, r: r}
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
		h.reset(store.HoldRules{PerBuyer: 4})
		h.do("hold z 4")
		won := slices.DeleteFunc(all(40, func(i int) string { return h.do(fmt.Sprintf("hold x%d/1 1", i)) }),
			func(s string) bool { return s == "short 0" })
		if !slices.Equal(won, []string{"held 0"}) {
			t.Errorf("of 40 holds of the last unit these were not sold out: %q, want one", won)
		}
		h.reset(store.HoldRules{PerBuyer: 4})
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
			h.reset(store.HoldRules{})
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
		if cluster {
			return
		}
		h.do("reset")
		other := h.aHold("a", 1)
		other.ID, other.Items[0].ProductID = "redis-2-a", 2
		reset(t, r, 2, 5, 0)
		h.do("hold a 1")
		_, _, _, err := r.Reserve(t.Context(), other, time.Minute)
		other.Key = []byte("another")
		_, _, _, made := r.Reserve(t.Context(), other, time.Minute)
		h.do("confirm a p")
		_, paid := r.Confirm(t.Context(), other.ID, "r", "o2", []byte("p"))
		if got := []string{told(err, ""), told(made, ""), told(paid, "")}; !slices.Equal(got, []string{"key reused", "", "payment reused"}) {
			t.Errorf("key and payment of another product = %q", got)
		}
	})
}
