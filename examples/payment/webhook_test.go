package payment

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/internal/backend"
	"lastitem/internal/replica"
	"lastitem/judge"
	"lastitem/target"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// street is a shop, its webhook, and a provider that tells it of payments.
type street struct {
	testing.TB
	*target.Shop
	*Provider
	store api.Store

	lose atomic.Int32 // so many requests to the shop, or its answers by turns, are lost from now on
}

// open opens a street whose shop keeps its reservations in a store, on real servers or embedded ones.
func open(t *testing.T, store api.Store, servers bool) *street {
	t.Helper()
	redis, sql := testenv.Miniredis, testenv.SQLite
	if servers {
		redis, sql = testenv.Redis, testenv.MySQL
	}
	server := redis(t)
	r, err := replica.New(replica.Config{Replica: "1", Token: "t0ken", DefaultMode: "lease-seq", Conns: 16,
		Redis: server.URL, Prefix: server.Prefix, SQL: sql(t), LockTTL: testenv.Still, WorkTimeout: testenv.Still,
		RedisTimeout: testenv.Still, SettleTimeout: testenv.Still, LockTimeout: 2 * testenv.Still,
		HealthWithin: testenv.Still, Sweep: 20 * time.Millisecond}, replica.Options{Log: slog.New(slog.DiscardHandler)})
	testkit.Must(t, err)
	t.Cleanup(r.Close)
	_, err = backend.Migrate(t.Context(), r.Backends.DB)
	testkit.Must(t, err)
	testkit.NoError(t, "ready", func() error {
		_, err := r.Backends.Ready([]string{"redis", "sql"}, nil)
		return err
	})
	s := &street{TB: t, store: store}
	behind := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch n := s.lose.Add(-1); {
		case n < 0:
			r.ServeHTTP(w, req)
		case n%2 == 0:
			r.ServeHTTP(httptest.NewRecorder(), req)
			http.Error(w, "404 page not found", http.StatusNotFound) // of a proxy
		default:
			http.Error(w, `{"status":404}`, http.StatusNotFound)
		}
	}))
	s.Shop, err = target.NewShop(behind.URL, "t0ken")
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	s.Provider = &Provider{Secret: "whsec"}
	s.Webhook = testkit.Serve(t, &Webhook{Shop: behind.URL, Secret: "whsec", Refund: s.Refund}).URL
	return s
}

// hold holds a unit of product 101 for a session; ok is false if it is sold out.
func (s *street) hold(buyer string, d time.Duration) (made Session, ok bool) {
	s.Helper()
	c := s.Call(target.Ask{Kind: judge.Reserve, Mode: "reserve-" + string(s.store), Store: s.store, Product: 101,
		Quantity: 1, Key: buyer, For: d, Wait: testkit.Most / 3})
	res, err := c.Send(s.Context(), s.Client, s.URL)
	testkit.Check(s.TB, err)
	said := target.Read(judge.Reserve, res)
	if said.Code != "" && said.Code != api.SoldOut {
		s.Errorf("a hold was answered %s", said.Code)
	}
	made = Session{ID: "cs_" + buyer, Payment: "pi_" + buyer, Status: "unpaid"}
	made.Metadata.Reservation = said.ReservationID
	return made, said.Code == ""
}

// read reads what became of a reservation; "" = it is not there.
func (s *street) read(id string) (state string) {
	s.Helper()
	_, body := testkit.Ask(s.TB, http.MethodGet, s.URL+"/reservations/"+id, nil)
	var said api.Reservation
	testkit.Check(s.TB, json.Unmarshal([]byte(body), &said))
	return said.State
}

// on plays with each store.
func on(t *testing.T, play func(t *testing.T, s *street)) {
	for _, store := range []api.Store{api.SQL, api.Redis} {
		t.Run(string(store), func(t *testing.T) {
			t.Parallel()
			t.Run("embedded", func(t *testing.T) { play(t, open(t, store, false)) })
			t.Run("servers", func(t *testing.T) { play(t, open(t, store, true)) })
		})
	}
}

// Whatever the provider tells, and however often, late and in whatever order: a payment has an order, or goes back.
func TestEvents(t *testing.T) {
	t.Parallel()
	on(t, func(t *testing.T, s *street) {
		testkit.Must(t, s.SetStock(t.Context(), 101, api.SetStock{Stock: 100}))
		for i, row := range []struct{ events, state, money string }{
			{"completed", "confirmed", "kept"},
			{"completed completed", "confirmed", "kept"},
			{"expired expired", "cancelled", ""},
			{"unpaid unpaid", "held", ""},
			{"unpaid succeeded succeeded", "confirmed", "kept"},
			{"succeeded unpaid", "confirmed", "kept"},
			{"unpaid failed failed", "cancelled", ""},
			{"failed unpaid", "cancelled", ""},
			{"late completed completed", "expired", "back"},
			{"late expired expired", "expired", ""},
			{"expired completed completed", "cancelled", "back"},
			{"completed expired expired", "confirmed", "kept"},
			{"unknown completed completed", "", "back"},
			{"unknown expired failed", "", ""},
			{"lost completed", "confirmed", "kept"},
			{"late lost completed", "expired", "back"},
			{"lost expired", "cancelled", ""},
			{"free completed completed", "confirmed", ""},
			{"free expired completed", "cancelled", ""},
			{"foreign expired failed", "held", ""},
			{"other", "held", ""},
		} {
			name, brief := fmt.Sprint(i, ", ", row.events), strings.HasPrefix(row.events, "late")
			made, ok := s.hold(fmt.Sprint(i), map[bool]time.Duration{true: 100 * time.Millisecond, false: time.Minute}[brief])
			if !ok {
				t.Fatal("nothing is held")
			}
			id := made.Metadata.Reservation
			for event := range strings.FieldsSeq(row.events) {
				s.tell(&made, event)
			}
			testkit.Is(t, s.read(cmp.Or(made.Metadata.Reservation, id)), row.state, "%s: state", name)
			testkit.Is(t, s.Money(made.Payment), row.money, "%s: money", name)
		}
		s.settled()
	})
}

// tell sends an event, or does what its word says.
func (s *street) tell(made *Session, word string) {
	s.Helper()
	told := *made
	switch word {
	case "late":
		testkit.Until(s.TB, "the deadline", func() bool { return s.read(made.Metadata.Reservation) == "expired" })
	case "unknown":
		made.Metadata.Reservation = string(s.store) + "-101-none"
	case "foreign":
		made.Metadata.Reservation = ""
	case "free":
		made.Payment, made.Status = "", "no_payment_required"
	case "lost":
		s.lose.Store(2)
	default:
		event := cmp.Or(map[string]string{"unpaid": completed, "succeeded": asyncSucceeded, "failed": asyncFailed}[word],
			"checkout.session."+word)
		if told.Payment != "" && (word == "completed" || word == "succeeded") {
			told.Status = "paid"
		}
		testkit.Check(s.TB, s.Send(s.Context(), event, told))
	}
}

// settled wants an order for each payment that was kept, and none for another, and that no unit is missing.
func (s *street) settled() {
	s.Helper()
	book, err := s.ReservationsNow(s.Context(), 101, s.store)
	testkit.Must(s.TB, err)
	kept, ordered := map[any]any{}, map[any]any{}
	s.money.Range(func(payment, where any) bool {
		if where == "kept" {
			kept[payment] = where
		}
		return true
	})
	for _, row := range book.Rows {
		if len(row.Orders) > 0 && strings.HasPrefix(row.Orders[0].Payment, "pi_") {
			ordered[row.Orders[0].Payment] = s.Money(row.Orders[0].Payment)
		}
	}
	testkit.Same(s.TB, ordered, kept, "the payments of orders, and those that were kept")
	testkit.Is(s.TB, book.Stock+book.Held+book.Ordered, book.Initial, "units in stock, held and ordered")
	if r := judge.Reservations(book, nil, "en"); r.Verdict == judge.Broken {
		s.Errorf("the judge found %s: %v", r.Found, r.Violations)
	}
}

// A crowd buys what is there, and its events come twice and shuffled, some about holds that end meanwhile.
func TestCrowd(t *testing.T) {
	t.Parallel()
	on(t, func(t *testing.T, s *street) {
		testkit.Must(t, s.SetStock(t.Context(), 101, api.SetStock{Stock: 30}))
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				made, ok := s.hold(fmt.Sprint(i), map[bool]time.Duration{true: 100 * time.Millisecond,
					false: time.Minute}[i%3 == 0])
				if !ok {
					return
				}
				made.Status = "paid"
				events := [][]string{{completed}, {completed, expired}, {completed, asyncSucceeded}}[i%3]
				testkit.Check(t, s.Storm(t.Context(), made, events...))
			})
		}
		all.Wait()
		s.settled()
	})
}

// What the provider has not signed, now, has no effect. While the shop cannot answer, the provider is to ask again.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := open(t, api.SQL, false)
	testkit.Must(t, s.SetStock(t.Context(), 101, api.SetStock{Stock: 1}))
	made, _ := s.hold("a", time.Minute)
	made.Status = "paid"
	e := Event{Type: completed}
	e.Data.Session = made
	body, err := json.Marshal(e)
	testkit.Must(t, err)
	forger := &Provider{Webhook: s.Webhook, Secret: "guessed"}
	for name, send := range map[string]func() (int, error){
		"by a forger": func() (int, error) { return forger.post(t.Context(), body, time.Now()) },
		"an hour ago": func() (int, error) { return s.post(t.Context(), body, time.Now().Add(-time.Hour)) },
		"no event":    func() (int, error) { return s.post(t.Context(), []byte("["), time.Now()) },
	} {
		if status, err := send(); err != nil || status != http.StatusBadRequest {
			t.Errorf("sent %s: %d, %v, want 400", name, status, err)
		}
	}
	testkit.Is(t, s.read(made.Metadata.Reservation), "held", "state")
	s.lose.Store(100)
	if err := s.Send(t.Context(), completed, made); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("without the answers of the shop: %v, want that it was answered 503", err)
	}
	testkit.Is(t, s.Money(made.Payment), "kept", "the money")
}
