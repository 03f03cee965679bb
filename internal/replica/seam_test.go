package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/stock"
	"lastitem/judge"
	"lastitem/target"
	"lastitem/testkit"
	"lastitem/testkit/reservationtest"
	"lastitem/testkit/testenv"
)

// The life of a reservation over HTTP, on embedded servers and on real ones.
func TestLifeOverHTTP(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		playLives(t, testenv.Miniredis(t), testenv.SQLite(t), false)
	})
	t.Run("servers", func(t *testing.T) {
		t.Parallel()
		playLives(t, testenv.Redis(t), testenv.MySQL(t), true)
	})
}

// playLives plays the table with each mode that knows a limit per buyer: with what it holds, or what another mode of
// its store holds. However many requests of a buyer come at once, he gets what he may. All other modes refuse the
// product.
func playLives(t *testing.T, redis *testenv.RedisServer, sql string, mysql bool) {
	r := startReplica(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: sql, Conns: 16})
	waitReady(t, r)
	url, refused := testkit.Serve(t, r).URL, 0
	for i, m := range stock.Modes() {
		if len(m.Stores) == 0 || slices.Contains(m.Stores, stock.Etcd) ||
			m.Tickets || // what it sells is in Redis first, and holds are in one store
			slices.Contains(m.Needs, stock.NeedMySQL) && !mysql {
			continue
		}
		product, at := int64(100+100*i), string(m.Stores[0])
		if !m.PerBuyer && !m.Reserves {
			for _, in := range m.Stores {
				p := reservationtest.New(t, serve(t, url, m.Name, m.Name, string(in)), product)
				p.Begin(ledger.Rules{PerBuyer: 2})
				switch said := p.Do("sell ann 1"); said {
				case "limit_unsupported":
					refused++
				case "mode_unavailable":
				default:
					t.Errorf("%s in %s = %s, want limit_unsupported", m.Name, in, said)
				}
			}
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			seam, claims := serve(t, url, m.Name, m.Name, at), m.Claims[m.Stores[0]]
			if !m.Reserves { // what it sells has to do with what is held, not with deadlines
				seam = serve(t, url, "reserve-"+at, m.Name, at)
				seam.Lacks = []string{"brief"}
			}
			if claims.Threads == "B" || claims.Expiry == "O" { // it counts orders only, or reads without ending anything
				seam.Lacks = []string{"hold", "brief"}
			}
			seam.Key = m.Name
			if p := reservationtest.New(t, seam, product); claims.Threads != "B" {
				p.Begin(ledger.Rules{PerBuyer: 2})
				p.AtOnce(40, 0, map[string]int{"sold": 2, "limit_reached": 38}, "sell ann/# 1")
			}
			seam.Key = strings.TrimSuffix(m.Name, at) // so the same payments pay what reserve-sql and reserve-redis hold
			reservationtest.Play(t, seam, product+1)
			if m.Reserves && claims.Expiry == "." {
				reservationtest.Race(t, seam, product)
			}
		})
	}
	if refused < 20 {
		t.Errorf("%d modes refuse a product with a limit", refused)
	}
}

// served is what a replica says about what some mode holds and another one sells.
type served struct {
	*target.Shop
	holds, sells string
	store        api.Store
}

func serve(t testing.TB, url, holds, sells, store string) reservationtest.Seam {
	t.Helper()
	s, err := target.NewShop(url, "t0ken")
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	seam := reservationtest.Seam{Service: served{s, holds, sells, api.Store(store)}, Store: store,
		Brief: 100 * time.Millisecond}
	if holds == "reserve-unit" || holds == "reserve-check" {
		seam.Lacks = []string{"overwrite"}
	}
	return seam
}

// ends are the codes that tell the state of a reservation.
var ends = map[string]api.Code{"confirmed": api.ReservationConfirmed, "cancelled": api.ReservationCancelled,
	"expired": api.ReservationExpired, "void": api.ReservationExpired}

// Ask sends the request, and that of a sale again, where the mode keeps keys.
func (s served) Ask(ctx context.Context, a target.Ask) (said reservationtest.Answer) {
	switch {
	case a.Mode == reservationtest.Absolute:
		a.Mode, a.Store = map[api.Store]string{api.SQL: "unsafe-sql", api.Redis: "unsafe"}[s.store], s.store
		return s.send(ctx, "", s.Call(a))
	case a.Kind == reservationtest.Read:
		return s.send(ctx, judge.Cancel, target.Call{Method: http.MethodGet, Path: "/reservations/" + a.Reservation})
	case a.Kind == judge.Adjust:
		a.Store = s.store
		return s.send(ctx, a.Kind, s.Call(a))
	case a.Kind != "":
		a.Mode = s.holds
		return s.send(ctx, a.Kind, s.Call(a))
	}
	a.Mode, a.Store = s.sells, s.store
	said = s.send(ctx, "", s.Call(a))
	if said.Uncounted = s.sells == "buyer-check"; said.Uncounted || said.Code != "" {
		return said
	}
	if again := s.send(ctx, "", s.Call(a)); again.OrderID != said.OrderID {
		said.Code = "its key sells again: " + again.Code
	}
	return said
}

func (s served) send(ctx context.Context, kind judge.ReservationKind, c target.Call) (said reservationtest.Answer) {
	r, err := c.Send(ctx, s.Client, s.URL)
	said.Answer = target.Read(kind, r)
	if err = errors.Join(err, json.Unmarshal(r.Body, &said)); err != nil {
		said.Code = api.Code(err.Error())
	}
	if said.Code != "" && said.State != "" && said.Code != ends[said.State] {
		said.State += " told by " + string(said.Code)
	}
	return said
}

// Reset sets the stock.
func (s served) Reset(ctx context.Context, product, stock int64, r ledger.Rules) error {
	return s.SetStock(ctx, product, api.SetStock{Stock: stock, Segments: r.Segments, PerBuyer: r.PerBuyer, Late: r.Late,
		MaxHoldMS: r.MaxHold.Milliseconds(), Extends: r.Extends, Units: r.Segments == 0 && s.holds == "reserve-unit"})
}

// Sweep reads what is overdue, which ends it: the replica sweeps when it likes.
func (s served) Sweep(ctx context.Context, product int64) (n int, err error) {
	book, err := s.ReservationsNow(ctx, product, s.store)
	for i := 0; err == nil && i < len(book.Rows); i++ {
		if row := book.Rows[i]; row.State == target.StateHeld && book.AsOfMicros >= row.ExpiresMicros {
			n++
			s.Ask(ctx, target.Ask{Kind: reservationtest.Read, Reservation: row.ReservationID})
		}
	}
	return n, err
}

// Book reads the reservations, and asks for the audit as well: it is of the ledger, which has their orders.
func (s served) Book(ctx context.Context, product int64) (*api.Reservations, error) {
	book, err := s.ReservationsNow(ctx, product, s.store)
	if err != nil || book.Overdue > 0 {
		return book, err
	}
	audit, err := target.Call{Method: http.MethodGet, Path: fmt.Sprintf("/products/%d/audit", product)}.Fetch(ctx,
		s.Client, s.URL)
	if strings.Contains(string(audit.Body), "BROKEN") {
		err = fmt.Errorf("the audit: %s", audit.Body)
	}
	return book, err
}
