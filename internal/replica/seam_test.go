package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/judge"
	"lastitem/target"
	"lastitem/testkit"
	"lastitem/testkit/reservationtest"
	"lastitem/testkit/testenv"
)

// The life of a reservation over HTTP, on embedded servers. What SQL and Redis hold is paid by the same payments.
func TestLifeOverHTTP(t *testing.T) {
	t.Parallel()
	redis := testenv.Miniredis(t)
	r := startReplica(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.SQLite(t), Conns: 16})
	playLives(t, r, "", [][3]string{{"reserve-sql", "reserve-sql", "sql"}, {"reserve-redis", "redis-lua", "redis"}})
}

// The same on servers, with further modes that hold, and with modes that sell what another one holds.
func TestLifeOverHTTPOnServers(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	r := startReplica(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.MySQL(t), Conns: 16})
	playLives(t, r, "%d.", [][3]string{{"reserve-sql", "queue", "sql"}, {"reserve-sql", "idempotent", "sql"},
		{"reserve-unit", "reserve-unit", "sql"}, {"reserve-check", "reserve-check", "sql"},
		{"reserve-redis", "reserve-redis", "redis"}})
}

// playLives plays the table with the names of two modes and their store; key is the form of the Key of the number.
func playLives(t *testing.T, r *Replica, key string, all [][3]string) {
	waitReady(t, r)
	url := testkit.Serve(t, r).URL
	for i, modes := range all {
		t.Run(modes[0]+" "+modes[1], func(t *testing.T) {
			t.Parallel()
			seam := serve(t, url, modes[0], modes[1], modes[2])
			if key != "" {
				seam.Key = fmt.Sprintf(key, i)
			}
			reservationtest.Play(t, seam, int64(1000+100*i))
			if modes[0] != "reserve-check" { // it oversells
				reservationtest.Race(t, seam, int64(1099+100*i))
			}
		})
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
		Units: r.Segments == 0 && s.holds == "reserve-unit"})
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
	if strings.Contains(string(audit), "BROKEN") {
		err = fmt.Errorf("the audit: %s", audit)
	}
	return book, err
}
