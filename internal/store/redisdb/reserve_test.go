package redisdb_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/store"
	"lastitem/internal/store/redisdb"
	"lastitem/testkit"
	"lastitem/testkit/reservationtest"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

// life is a Redis as the table of reservations plays on it.
type life struct {
	*redisdb.Reservations
	s *redisdb.Store
}

func (l life) Reserve(ctx context.Context, r ledger.Reservation, hold time.Duration) (ledger.Reservation, *int64, bool,
	error) {
	made, left, earlier, err := l.Reservations.Reserve(ctx, r, hold)
	return made, &left, earlier, err
}

func (l life) Sell(ctx context.Context, o ledger.Order) (*int64, error) {
	s := sale("", string(o.Key), o.ProductID)
	s.Buyer, s.Orders[0] = o.Buyer, o
	sold, err := l.s.Sell(ctx, s)
	if err == nil && sold.Short >= 0 {
		err = &ledger.ShortError{Err: store.ErrShort, Available: sold.Available}
	}
	return &sold.Remaining, err
}

// unlocked is a lock on segments that nobody else takes.
func unlocked(int) (func(), error) { return func() {}, nil }

func (l life) Adjust(ctx context.Context, product int64, a ledger.Adjustment) (ledger.Adjustment, bool, error) {
	return l.Reservations.Adjust(ctx, product, a, false, unlocked)
}

func (l life) Reset(ctx context.Context, product, stock int64, rules ledger.Rules) error {
	return l.s.Reset(ctx, product, stock, rules, noKeys)
}

func (l life) Sweep(ctx context.Context, _ int64) (int, error) {
	return l.Reservations.Sweep(ctx, 100, "r 2")
}

func reservations(s *redisdb.Store) *redisdb.Reservations {
	return redisdb.NewReservations(s, 7*24*time.Hour)
}

// inRedis is a player of product 1, whose keys are no text.
func inRedis(t *testing.T, s *redisdb.Store) *reservationtest.Player {
	seam := reservationtest.InStore(life{reservations(s), s}, "redis")
	seam.Key = "\xff"
	return reservationtest.New(t, seam, 1)
}

// each says sentences whose outcome must have a part.
func each(t *testing.T, p *reservationtest.Player, part string, sentences ...string) {
	t.Helper()
	for _, sentence := range sentences {
		if got := p.Do(sentence); !strings.Contains(got, part) {
			t.Errorf("%s = %s, want %s", sentence, got, part)
		}
	}
}

func TestLifeInRedis(t *testing.T) {
	onClustersToo(t, func(t *testing.T, r *redisdb.Store, _ bool) {
		p := inRedis(t, r)
		reservationtest.Play(t, p.Seam, 2)
		reservationtest.Race(t, p.Seam, 1)
	})
}

// Units that are added are spread over the segments, and taken from those that have some; on a cluster no script
// reaches them all.
func TestRedisAdjustsSegments(t *testing.T) {
	onClustersToo(t, func(t *testing.T, r *redisdb.Store, cluster bool) {
		testkit.Must(t, r.Reset(t.Context(), 1, 7, ledger.Rules{Segments: 3}, noKeys))
		h := reservations(r)
		for i, c := range []struct {
			delta int64
			want  []int64 // nil = too few
		}{{5, []int64{5, 4, 3}}, {-4, []int64{4, 3, 1}}, {-6, []int64{1, 1, 0}}, {-3, nil}, {-2, []int64{0, 0, 0}},
			{2, []int64{1, 1, 0}}} {
			_, _, err := h.Adjust(t.Context(), 1, ledger.Adjustment{Delta: c.delta, Key: []byte{byte(i)}}, false, unlocked)
			got, _, failed := r.Segments(t.Context(), 1)
			testkit.Must(t, failed)
			switch {
			case cluster:
				testkit.IsError(t, err, store.ErrAdjustUnsupported, "Adjust() of segments on a cluster")
			case c.want == nil:
				testkit.IsError(t, err, store.ErrShort, "Adjust(%d)", c.delta)
			default:
				testkit.Must(t, err)
				testkit.Same(t, got, c.want, "segments after %+d", c.delta)
			}
		}
		f, err := storetest.Whole(t, r, 1)
		if want := map[bool]int64{true: 7, false: 2}[cluster]; err != nil || f.Initial != want {
			t.Errorf("initial %d, %v, want %d", f.Initial, err, want)
		}
	})
}

// A write of a count that was read before the first hold loses what is held, which every change says, until the stock
// is set again. A key and a payment of one product are nobody else's.
func TestRedisHoldsApart(t *testing.T) {
	onClustersToo(t, func(t *testing.T, r *redisdb.Store, _ bool) {
		p := inRedis(t, r)
		p.Say("reset = ; hold a 1 = held 4; brief b 1 = held 3; late b =")
		testkit.Must(t, r.Set(t.Context(), 1, 2))
		each(t, p, "the count is lost", "cancel a", "confirm a p", "sweep")
		p.Play("reset = ; read a = void; hold c 5 = held 0; confirm c p = confirmed op")
		other := inRedis(t, r)
		other.Product = 2
		other.Play("reset = ; hold c 5 = idempotency_key_reused; hold d 5 = held 0; confirm d p = idempotency_key_reused")
	})
}

// However many payments there are and however often the stock is set, a payment has the end that it had.
func TestRedisPaymentsAreNotForgotten(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, s *testenv.RedisServer) {
		p := inRedis(t, r)
		p.Play("reset = ; hold a 1 = held 4; confirm a p = confirmed op; hold b 1 = held 3; cancel b = cancelled")
		var others []any
		for i := range 6000 {
			others = append(others, fmt.Sprint("x", i), "redis-1-x o 1")
		}
		testkit.Must(t, s.Client.HSet(t.Context(), s.Prefix+"payments:{1}", others...).Err())
		p.Play(`confirm b q = cancelled refund; reset = ; reset = ; reset = ; confirm a p = confirmed op replay
			confirm b q = cancelled refund; hold c 1 = held 4; confirm c q = idempotency_key_reused
			confirm c p = idempotency_key_reused`)
	})
}

// A return of an order that is not there does not read the whole list each time, and finds each that is, in every run.
func TestRedisFindsOrders(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, s *testenv.RedisServer) {
		held, list := reservations(r), s.Prefix+"orders:{1}"
		var rows []any
		for i := range 3500 {
			rows = append(rows, fmt.Sprintf(`{"id":"o%04d","product_id":1,"quantity":1,"mode":"m","replica":"r","created_us":1}`,
				i))
		}
		restock := func(want error, orders ...string) {
			t.Helper()
			for _, order := range orders {
				_, _, err := held.Return(t.Context(), 1, order, true, ledger.Part{})
				testkit.IsError(t, err, want, "Return(%s)", order)
			}
		}
		reset(t, r, 1, 5, 0)
		testkit.Must(t, s.Client.RPush(t.Context(), list, rows...).Err())
		restock(store.ErrNoOrder, "o9999")
		restock(nil, "o0500", "o3400")
		// a page in the middle that was read once is not read again for an id that cannot be there
		other := strings.ReplaceAll(rows[1500].(string), "o1500", "o7777")
		testkit.Must(t, s.Client.LSet(t.Context(), list, 1500, other).Err())
		restock(store.ErrNoOrder, "o7777")
		restock(nil, "o1501")
		reset(t, r, 1, 5, 0)
		testkit.Must(t, s.Client.RPush(t.Context(), list, rows[7], rows[1]).Err())
		restock(nil, "o0001")
		restock(store.ErrNoOrder, "o0500")
	})
}

// The orders of reservations are read as those of sales, and the books of a product have what is held and came back.
func TestRedisHoldsInTheBooks(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, _ *testenv.RedisServer) {
		p := inRedis(t, r)
		p.Play(`reset = ; sell s 1 = sold 4; hold a 2 = held 2; confirm a p = confirmed op; hold b 1 = held 1
			restock s = 1 true; write-off op = 2 false`)
		f, _, err := r.Snapshot(t.Context(), 1, ledger.Want{Orders: 9})
		f.Stock += 10 * (f.Held + 10*f.WrittenOff + 100*f.Restocked)
		if err != nil || f.Totals != (ledger.Totals{Orders: 2, Units: 3}) || f.Stock != 1212 {
			t.Fatalf("Snapshot() = %+v, %v, want two orders, one unit held, two written off, one put back", f, err)
		}
		o := f.Orders[1]
		testkit.Same(t, o, ledger.Order{ID: o.ID, ProductID: 1, Quantity: 2, Mode: "m", Replica: "r 2", Key: []byte("\xffp"),
			CreatedMicros: o.CreatedMicros, Buyer: "a", ReservationID: p.ID("a")}, "order")
		if age := time.Since(time.UnixMicro(o.CreatedMicros)); age.Abs() > time.Hour {
			t.Errorf("it was made %s ago", age)
		}
		held := reservations(r)
		one, two := ledger.ReservationItem{ProductID: 1, Quantity: 1}, ledger.ReservationItem{ProductID: 2, Quantity: 1}
		for id, want := range map[string]error{"redis-1-x": store.ErrCrossSlot, "redis-7-x": store.ErrUnavailable,
			"redis-2-x": store.ErrUnknownProduct} {
			items := []ledger.ReservationItem{one, two}
			if id != "redis-1-x" {
				items = items[1:]
			}
			_, _, _, err := held.Reserve(t.Context(), ledger.Reservation{ID: id, Items: items}, time.Minute)
			testkit.IsError(t, err, want, "Reserve(%s)", id)
		}
		for _, id := range []string{"sql-1-a", "redis-1", "redis-x-a", "redis-77-a", ""} {
			_, err := held.Read(t.Context(), id, "r")
			testkit.IsError(t, err, store.ErrNoReservation, "Read(%q)", id)
		}
		p.Play("brief c 1 = held 1; late c = ; sweep = 1")
		all, err := held.Page(t.Context(), 1, "")
		testkit.Must(t, err)
		page, err := held.Page(t.Context(), 1, all.Rows[0].ID)
		if diff := cmp.Diff(all.Rows[1:], page.Rows); err != nil || diff != "" || len(page.Rows) != 2 {
			t.Errorf("the page after the first: %v (-want +got):\n%s", err, diff)
		}
		for _, row := range all.Rows {
			for _, e := range row.Events {
				if (e.CommittedMicros > 0) != (e.Now == ledger.Expired) || e.AtMicros < row.CreatedMicros {
					t.Errorf("%s has %+v: only an expiry says when it was certain", row.ID, e)
				}
			}
		}
	})
}

// If memory is full, nothing new is held, and all that ends a reservation works: otherwise its units were lost, and who
// has paid would get nothing.
func TestRedisHoldsWhereMemoryIsFull(t *testing.T) {
	t.Parallel()
	p, c := onNode(t, "maxmemory-policy noeviction")
	p.Play(`reset = ; hold a 1 = held 4; hold b 1 = held 3; brief c 1 = held 2; hold d 1 = held 1
		confirm d p = confirmed op; late c =`)
	testkit.Must(t, c.ConfigSet(t.Context(), "maxmemory", "1").Err())
	each(t, p, "OOM", "hold e 1")
	p.Play(`cancel b = cancelled; confirm b r = cancelled refund; sweep = 1; confirm a q = confirmed oq
		restock op = 1 true`)
	p.Begin(ledger.Rules{PerBuyer: 1})
	testkit.Must(t, c.ConfigSet(t.Context(), "maxmemory", "0").Err())
	p.Play("read a = confirmed; hold x/1 1 = held 4; hold x/2 1 = limit_reached 1")
}

// onNode is a player on a Redis of its own.
func onNode(t *testing.T, config ...string) (*reservationtest.Player, redis.UniversalClient) {
	t.Helper()
	c, err := backend.OpenRedis(testenv.RedisNodes(t, 1, config...)[0].URL, 4)
	testkit.Must(t, err)
	return inRedis(t, redisdb.New(testkit.Closing(t, c), "p:")), c
}

// A Redis that cannot save refuses every write: nothing ends, and nothing is lost. A sweep goes on when there is room.
func TestRedisHoldsWhereDiskIsFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	room := filepath.Join(dir, "dump.rdb", "in the way")
	p, c := onNode(t, "dir "+dir, "save 3600 1000000")
	save := func(want string) {
		testkit.Until(t, "the last save was "+want, func() bool {
			c.BgSave(t.Context())
			return strings.Contains(c.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:"+want)
		})
	}
	p.Play("reset = ; brief a 1 = held 4; brief b 2 = held 2; late b =")
	testkit.Must(t, os.MkdirAll(room, 0o700))
	save("err")
	each(t, p, "MISCONF", "sweep", "cancel a", "confirm a p")
	testkit.Is(t, p.Sound("full").Held, 3, "held")
	testkit.Must(t, os.RemoveAll(filepath.Dir(room)))
	save("ok")
	p.Play("sweep = 2; read b = expired; confirm a p = expired refund")
}

// A lost answer is asked for again, and what was done is not done twice.
func TestRedisHoldsLostReply(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	direct := inRedis(t, redisdb.New(s.Client, s.Prefix))
	direct.Space = "warm"
	direct.Play(`reset = ; hold w 1 = held 4; extend w 1h = held by 1h0m0s; confirm w p = confirmed op; restock op = 1 true
		cancel w = confirmed; sweep = 0`)
	proxy, client := behindGate(t, s)
	through := inRedis(t, redisdb.New(client, s.Prefix))
	for sentence := range strings.SplitSeq(`hold a 2 = held 3; confirm a p = confirmed op; hold b-c 1 = held 2
		cancel b-c = cancelled; hold d 1 = held 2; extend d 1h = held by 1h0m0s; restock op = 2 true; sweep = 0`, ";") {
		for sentence := range strings.SplitSeq(sentence, "\n") {
			lost := storetest.Cut(t, proxy, "EVALSHA")
			through.Play(sentence)
			testkit.Is(t, storetest.WasCut(lost), true, "the answer of %s was lost", sentence)
		}
	}
}

// The sweeper finds the products that nobody has announced, and leaves out what it cannot read.
func TestRedisSweepsWhatIsDamaged(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, s *testenv.RedisServer) {
		p, held := inRedis(t, r), reservations(r)
		p.Play("reset = ; brief c 1 = held 4; brief b 1 = held 3; late b = ; brief a 1 = held 2; late a =")
		if d, err := held.Overdue(t.Context()); d <= 0 || d > time.Minute || err != nil {
			t.Errorf("Overdue() = %v, %v, want how long the first has been", d, err)
		}
		if n, err := held.Sweep(t.Context(), 1, "r"); n != 1 || err != nil {
			t.Errorf("Sweep(1) = %d, %v, want 1", n, err)
		}
		s.Client.HSet(t.Context(), s.Prefix+"holds:{1}", p.ID("a"), "{")
		s.Client.ZAdd(t.Context(), s.Prefix+"due:{1}", redis.Z{Score: 1, Member: "redis-1-ghost"})
		s.Client.Del(t.Context(), s.Prefix+"holding")
		p.Seam = inRedis(t, redisdb.New(s.Client, s.Prefix)).Seam
		n, err := p.Sweep(t.Context(), 1)
		if n != 3 || err == nil || !strings.Contains(err.Error(), p.ID("a")) || !strings.Contains(err.Error(), "ghost") {
			t.Errorf("Sweep() = %d, %v, want 3, of which two are damaged", n, err)
		}
		p.Say("read b = expired; sweep = 0")
		if d, err := held.Overdue(t.Context()); d != 0 || err != nil {
			t.Errorf("Overdue() = %v, %v, want none", d, err)
		}
		p.Play("reset = ; brief d 1 = held 4; late d =")
		s.Client.Del(t.Context(), s.Prefix+"stock:{1}")
		each(t, p, "the count is lost", "cancel d", "confirm d p", "extend d 1h", "read d", "sweep")
		testkit.Is(t, s.Client.ZCard(t.Context(), s.Prefix+"due:{1}").Val(), 1, "what is due still")
	})
}

// Closed reservations are kept while a payment may come for them, and then deleted.
func TestRedisHoldsRetention(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	c := redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1})
	defer c.Close()
	p := inRedis(t, redisdb.New(c, ""))
	begin := time.Now()
	after := func(age time.Duration, sentences string) {
		t.Helper()
		m.SetTime(begin.Add(age))
		p.Play(sentences)
	}
	const day = 24 * time.Hour
	p.Begin(ledger.Rules{Late: ledger.LateRehold})
	after(0, `hold late 1 = held 4; reset = ; hold a-1 1 = held 4; cancel a-1 = cancelled; hold b 1 = held 4
		cancel b = cancelled; confirm b p = cancelled refund; hold c 1 = held 4; confirm c q = confirmed oq
		hold a-2 1 = held 3`)
	after(2*time.Hour, `sweep = 1; read a-1 = unknown_reservation; read a-2 = expired; again b 1 = held 4 replay
		confirm b p = cancelled refund; read late = void`)
	after(8*day, "sweep = 2; read b = unknown_reservation; confirm c q = confirmed oq replay")
	inRedis(t, redisdb.New(c, "")).Play("hold b 1 = held 3") // its key is free again
	p.Begin(ledger.Rules{Late: ledger.LateRehold})
	after(8*day, "hold d 1 = held 4")
	after(8*day+2*time.Hour, "sweep = 1")
	// it is still there, and its first payment may be forgotten
	after(15*day+time.Hour, "read d = expired; confirm d r = expired refund; sweep = 0")
}
