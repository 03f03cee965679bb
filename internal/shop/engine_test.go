package shop_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
	"lastitem/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// Selling the last two units of a product by one mode.
func ExampleShop_Deduct() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	set, err := backend.Open(backend.Config{Redis: "redis://" + server.Addr(), Conns: 4})
	if err != nil {
		panic(err)
	}
	defer set.Close()
	s, err := shop.New(shop.Backends{
		Redis: set.Redis, Lockers: stock.Lockers{Client: set.Client, TTL: 10 * time.Second},
	}, shop.Options{Replica: "1"}, stock.Modes())
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	if err := s.SetStock(ctx, 101, 2, ledger.Rules{}); err != nil {
		panic(err)
	}
	one := stock.Request{Items: []stock.Item{{ProductID: 101, Quantity: 1}}, Wait: time.Second}
	for range 3 {
		receipt, err := s.Deduct(ctx, "lua-lock", one)
		if errors.Is(err, stock.ErrSoldOut) {
			fmt.Println("sold out")
			continue
		}
		fmt.Println("left:", *receipt.Remaining)
	}
	// Output:
	// left: 1
	// left: 0
	// sold out
}

// byEngine lists the modes whose lock is the engine, with the store of each.
var byEngine = map[string]stock.Store{
	"handoff": stock.Redis, "fair": stock.Redis, "rwlock": stock.Redis, "global-lock": stock.SQL, "segmented": stock.Redis,
	"multi-lock": stock.Redis, "lease-seq": stock.SQL, "idempotent": stock.SQL,
}

// engineShop returns a shop whose engine has the options o.
func engineShop(t *testing.T, o handoff.Options) (*shop.Shop, *handoff.Engine) {
	t.Helper()
	r := testenv.Miniredis(t)
	set := opened(t, backend.Config{Redis: r.URL, SQL: testenv.SQLite(t), Prefix: r.Prefix, Conns: 8})
	e := engine(t, set, o)
	b := on(set, r.Prefix)
	b.Lockers.Engine = e
	shop := open(t, b)
	testkit.Must(t, shop.SetStock(t.Context(), 1, 5, ledger.Rules{}))
	return shop, e
}

// wantNothingDone sends a request by each mode of the engine but those that sell without the lock: it fails with the
// expected error, and nothing is deducted.
func wantNothingDone(t *testing.T, shop *shop.Shop, want error, sell ...string) {
	t.Helper()
	for mode, s := range byEngine {
		req := stocktest.Request(1, 1, mode)
		req.Store = s
		_, err := shop.Deduct(t.Context(), mode, req)
		if sells := slices.Contains(sell, mode); sells && err != nil || !sells && !errors.Is(err, want) {
			t.Errorf("%s: Deduct() = %v, want %v, unless it sells: %t", mode, err, want, sells)
		}
	}
	p, err := shop.Product(t.Context(), 1)
	if left := int64(5 - len(sell)); err != nil || p.Stock[stock.Redis] != 5 || p.Stock[stock.SQL] != left {
		t.Errorf("Product() = %+v, %v, want 5 in Redis and %d in SQL", p, err, left)
	}
}

func TestEngineRefuses(t *testing.T) {
	t.Parallel()
	shop, e := engineShop(t, handoff.Options{})
	testkit.Mustf(t, e.Close(t.Context()), "Close()")
	wantNothingDone(t, shop, stock.ErrLockClosed)
	// A lock that too few replicas have confirmed is refused, and two modes do without it. Miniredis has no replicas.
	shop, _ = engineShop(t, handoff.Options{Replicas: 1})
	wantNothingDone(t, shop, stock.ErrLockUnavailable, "lease-seq", "idempotent")
}

// deductorFunc makes a function a deductor.
type deductorFunc func(context.Context, stock.Request) (stock.Receipt, error)

func (f deductorFunc) Deduct(ctx context.Context, r stock.Request) (stock.Receipt, error) {
	return f(ctx, r)
}

// as returns a shop with one mode, which has the name and the needs of mutex and deducts by f.
func as(t testing.TB, o shop.Options, f deductorFunc) *shop.Shop {
	t.Helper()
	set := opened(t, backend.Config{Redis: "redis://127.0.0.1:1", Conns: 1, Health: backend.Health{Every: -1}})
	for _, m := range stock.Modes() {
		if m.Name == "mutex" {
			m.New = func(stock.Deps) (stock.Deductor, error) { return f, nil }
			s, err := shop.New(shop.Backends{Redis: set.Redis}, o, []stock.Mode{m})
			testkit.Must(t, err)
			return s
		}
	}
	t.Fatal("no mode mutex")
	return nil
}

// A request is answered at its deadline, whatever its mode does, and the answer says what may have happened.
func TestAnswerAtTheDeadline(t *testing.T) {
	t.Parallel()
	const work, wait = 2 * time.Second, 3 * time.Second
	type hanging <-chan struct{} // forever, as far as the request can tell
	for name, c := range map[string]struct {
		f      func(context.Context, hanging) error
		want   error
		before time.Duration // of the answer
	}{
		"reads, and ends with its context": {func(ctx context.Context, _ hanging) error {
			<-ctx.Done()
			return fmt.Errorf("%w: %w", stock.ErrLockBusy, context.Cause(ctx))
		}, stock.ErrLockBusy, wait + work},
		"hangs before it writes": {func(_ context.Context, hang hanging) error {
			<-hang
			return nil
		}, stock.ErrUnavailable, wait + work + shop.LastWords},
		"hangs in its write": {func(ctx context.Context, hang hanging) error {
			err := stock.Begin(ctx)
			<-hang
			return err
		}, stock.ErrUnknown, wait + work + shop.LastWords},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				hang := make(chan struct{})
				s := as(t, shop.Options{Work: work}, func(ctx context.Context, _ stock.Request) (stock.Receipt, error) {
					return stock.Receipt{}, c.f(ctx, hang)
				})
				req, begin := stocktest.Request(101, 1, ""), time.Now()
				req.Wait = wait
				_, err := s.Deduct(t.Context(), "mutex", req)
				if !errors.Is(err, c.want) || !errors.Is(err, stock.ErrTooLate) ||
					errors.Is(err, stock.ErrUnknown) != errors.Is(c.want, stock.ErrUnknown) {
					t.Errorf("Deduct() = %v, want %v", err, c.want)
				}
				if took := time.Since(begin); took != c.before {
					t.Errorf("Deduct() took %s, want %s", took, c.before)
				}
				close(hang)
				testkit.Check(t, s.Close(t.Context()))
			})
		})
	}
}

// Once a request was answered with "nothing happened", its mode does not begin to write.
func TestNothingBeginsAfterTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := make(chan error, 1)
		s := as(t, shop.Options{Work: time.Second}, func(ctx context.Context, _ stock.Request) (stock.Receipt, error) {
			time.Sleep(time.Minute)
			began <- stock.Begin(ctx)
			return stock.Receipt{}, nil
		})
		_, err := s.Deduct(t.Context(), "mutex", stocktest.Request(101, 1, ""))
		testkit.IsError(t, err, stock.ErrUnavailable, "Deduct()")
		if err := s.Close(t.Context()); err != nil { // waits for it
			t.Error(err)
		}
		testkit.IsError(t, <-began, stock.ErrUnavailable, "begin()")
	})
}

// A mode's panic reaches the goroutine of its request, with the stack of its origin.
func TestPanicReachesTheRequest(t *testing.T) {
	t.Parallel()
	s := as(t, shop.Options{}, func(context.Context, stock.Request) (stock.Receipt, error) { panic("boom") })
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "boom") || !strings.Contains(got, "engine_test.go") {
			t.Errorf("recover() = %s", got)
		}
	}()
	_, _ = s.Deduct(t.Context(), "mutex", stocktest.Request(101, 1, ""))
}

// Before its first irreversible command every mode calls Begin: otherwise the answer "nothing happened" at the deadline
// could be false.
func TestEveryModeAsksBeforeItWrites(t *testing.T) {
	t.Parallel()
	e, _ := stocktest.Real(t).WithServices(t).WithRedlock(t)
	e.Kafka = testenv.EmbeddedKafka(t).Seeds
	h := stocktest.Open(t, e, 1, stock.Modes())
	for _, m := range stock.Modes() {
		for _, s := range m.Stores {
			t.Run(m.Name+"/"+string(s), func(t *testing.T) {
				t.Parallel()
				product := h.ProductOf(t, m, 3, math.MaxInt)
				req := stocktest.Request(product, 2, "key of "+m.Name+string(s))
				req.Store, req.Wait = s, stocktest.Patience
				testkit.IsError(t, h.Replicas[0].DeductAnswered(t.Context(), m.Name, req), stock.ErrTooLate, "Deduct()")
				h.WantBooks(t, product, s, stocktest.Books{Initial: 3, Stock: 3})
			})
		}
	}
}
