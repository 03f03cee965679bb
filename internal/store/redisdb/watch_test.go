package redisdb_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
	"lastitem/internal/store/redisdb"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

// atOnce sends a command without a time limit.
func atOnce(ctx context.Context, send func(context.Context) error) error { return send(ctx) }

// Count and order are written together, or not at all: when somebody has written the count since it was read, when the
// caller declines, and when there is no such count.
func TestWatch(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, _ *testenv.RedisServer) {
		reset(t, r, 1, 5, 0)
		reset(t, r, 2, 6, 3)
		o, declined := storetest.SomeOrder("a", 1), errors.New("declined")
		var rival func() error
		take := func(int64) (ledger.Order, error) { return o, rival() }
		for _, c := range []struct {
			name    string
			product int64
			rival   func() error
			want    error
			stock   int64
			orders  []ledger.Order
		}{
			{"declined", 1, func() error { return declined }, declined, 5, nil},
			{"overtaken", 1, func() error { return r.Set(t.Context(), 1, 9) }, store.ErrConflict, 9, nil},
			{"overtaken by the same value", 1, func() error { return r.Set(t.Context(), 1, 9) }, store.ErrConflict, 9, nil},
			{"segmented", 2, func() error { return nil }, store.ErrSegmented, 9, nil},
			{"unknown", 3, func() error { return nil }, store.ErrUnknownProduct, 9, nil},
			{"alone", 1, func() error { return nil }, nil, 4, []ledger.Order{o}},
		} {
			rival = c.rival
			if err := r.Watch(t.Context(), c.product, take, atOnce); !errors.Is(err, c.want) {
				t.Errorf("%s: Watch() = %v, want %v", c.name, err, c.want)
			}
			f, err := storetest.Whole(t, r, 1)
			testkit.Must(t, err)
			testkit.Is(t, f.Stock, c.stock, "%s: stock", c.name)
			if diff := cmp.Diff(c.orders, f.Orders, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: orders (-want +got):\n%s", c.name, diff)
			}
		}
	})
}

// Before EXEC is sent, an error means that nothing has happened; after it, that the outcome is unknown.
func TestWatchWithoutAnAnswer(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, _ *testenv.RedisServer) {
		reset(t, r, 1, 5, 0)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		take := func(int64) (ledger.Order, error) { return storetest.SomeOrder("a", 1), nil }
		if err := r.Watch(ended, 1, take, atOnce); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("Watch() that cannot read = %v, want ErrUnavailable", err)
		}
		lost := func(ctx context.Context, send func(context.Context) error) error {
			if err := send(ctx); err != nil {
				return err
			}
			return context.DeadlineExceeded
		}
		testkit.IsError(t, r.Watch(t.Context(), 1, take, lost), store.ErrUnknown, "Watch() whose answer is lost")
	})
}
