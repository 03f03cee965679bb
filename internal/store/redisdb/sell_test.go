package redisdb_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
	"lastitem/internal/store/redisdb"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

// sale returns a sale of one unit of each product, with a key unless that is "".
func sale(id, key string, products ...int64) redisdb.Sale {
	s := redisdb.Sale{Key: []byte(key), Fingerprint: []byte(strings.Repeat("f", 32))}
	for i, p := range products {
		s.Orders = append(s.Orders, ledger.Order{
			ID: fmt.Sprint(id, i), ProductID: p, Quantity: 1, Mode: `m"<é`, Replica: "r", Key: []byte(key), Fence: 7,
			CreatedMicros: 3,
		})
	}
	s.Sold = func() idempotency.Template {
		return idempotency.Template{Status: 200, Pieces: []string{id + " left ", ", ", "."}}
	}
	s.Refused = func(i int) idempotency.Template {
		return idempotency.Template{Status: 409, Pieces: []string{fmt.Sprintf("%d has ", products[i]), ""}}
	}
	return s
}

// with returns the order as the script wrote it.
func with(o ledger.Order, remaining int64) ledger.Order {
	o.Remaining = &remaining
	return o
}

func TestRedisSell(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, _ *testenv.RedisServer) {
		reset(t, r, 1, 3, 0)
		reset(t, r, 2, 1, 0)
		reset(t, r, 3, 4, 2)
		answer := func(status int, body string) *idempotency.Answer {
			return &idempotency.Answer{Status: status, Body: []byte(body)}
		}
		for _, c := range []struct {
			name string
			sale redisdb.Sale
			want redisdb.Sold
			err  error
		}{
			{"one", sale("a", "", 1), redisdb.Sold{Short: -1, Remaining: 2}, nil},
			{"one with a key", sale("b", "k", 1),
				redisdb.Sold{Short: -1, Remaining: 1, Answer: answer(200, "b left 1, 1.")}, nil},
			{"again", sale("c", "k", 1), redisdb.Sold{Short: -1, Earlier: true, Answer: answer(200, "b left 1, 1."),
				Fingerprint: []byte(strings.Repeat("f", 32))}, nil},
			{"a cart", sale("d", "", 1, 2), redisdb.Sold{Short: -1, Remaining: 0}, nil},
			{"none left", sale("e", "", 1), redisdb.Sold{Short: 0}, nil},
			{"a cart, none left of the second", sale("f", "k2", 9, 2), redisdb.Sold{}, store.ErrUnknownProduct},
			{"none left, with a key", sale("g", "k3", 2), redisdb.Sold{Short: 0, Answer: answer(409, "2 has 0")}, nil},
			{"none left, again", sale("h", "k3", 2), redisdb.Sold{Short: -1, Earlier: true, Answer: answer(409, "2 has 0"),
				Fingerprint: []byte(strings.Repeat("f", 32))}, nil},
			{"segmented", sale("i", "k4", 3), redisdb.Sold{}, store.ErrSegmented},
		} {
			got, err := r.Sell(t.Context(), c.sale)
			if diff := cmp.Diff(c.want, got); !errors.Is(err, c.err) || diff != "" {
				t.Errorf("%s: Sell() = %v, want %v (-want +got):\n%s", c.name, err, c.err, diff)
			}
		}
		storetest.WantFacts(t, r, 1, ledger.Facts{Initial: 3, Orders: []ledger.Order{
			with(sale("a", "", 1).Orders[0], 2), with(sale("b", "k", 1).Orders[0], 1), with(sale("d", "", 1).Orders[0], 0),
		}}, "after the sales")
		reset(t, r, 1, 3, 0)
		if got, err := r.Sell(t.Context(), sale("j", "k", 1)); err != nil || got.Earlier {
			t.Errorf("Sell() after a reset = %+v, %v, want a sale: the answers are cleared", got, err)
		}
	})
}

// keysRead returns the keys on a product's orders, in each way that they are read.
func keysRead(t *testing.T, r *redisdb.Store, product int64) map[string][]string {
	t.Helper()
	read := map[string][]string{}
	note := func(how string, orders []ledger.Order, err error) {
		testkit.Is(t, err, nil, "%s", how)
		for _, o := range orders {
			read[how] = append(read[how], string(o.Key))
		}
	}
	f, p, err := r.Snapshot(t.Context(), product, ledger.Want{Orders: 1})
	note("pages", f.Orders, err)
	for err == nil && !p.End() {
		f, p, err = r.Page(t.Context(), product, p, ledger.Want{Orders: 1})
		note("pages", f.Orders, err)
	}
	err = r.Scan(t.Context(), product, func(s *ledger.Snapshot) error {
		return s.Orders(func(batch []ledger.Order) error { note("scan", batch, nil); return nil })
	})
	note("scan", nil, err)
	return read
}

// Setting the stock of a cart's first product deletes the cart's answer, so that the same request sells again. The
// earlier orders of the other products then have no key: no two orders have the same one.
func TestRedisCartOutlivesItsAnswer(t *testing.T) {
	onClustersToo(t, func(t *testing.T, r *redisdb.Store, _ bool) {
		reset(t, r, 1, 1, 0)
		first, second := int64(1), int64(2) // on a cluster, in the same slot as product 1
		for _, err := r.Sell(t.Context(), sale("x", "", 1, second)); errors.Is(err, store.ErrCrossSlot); _,
			err = r.Sell(t.Context(), sale("x", "", 1, second)) {
			second++
		}
		check := func(when string, product int64, want ...string) {
			t.Helper()
			for how, got := range keysRead(t, r, product) {
				testkit.Same(t, got, want, "%s, %s of product %d: keys", when, how, product)
			}
		}
		sell := func(id, key string, earlier bool, products ...int64) {
			t.Helper()
			got, err := r.Sell(t.Context(), sale(id, key, products...))
			if err != nil || got.Earlier != earlier || got.Short >= 0 {
				t.Errorf("Sell(%s, %s, %v) = %+v, %v, want one with Earlier %t", id, key, products, got, err, earlier)
			}
		}
		reset(t, r, first, 9, 0)
		reset(t, r, second, 9, 0)
		sell("a", "one", false, second)
		sell("b", "cart", false, first, second)
		sell("c", "", false, first, second)
		sell("d", "cart", true, first, second)
		check("before", first, "cart", "")
		check("before", second, "one", "cart", "")
		reset(t, r, first, 9, 0)
		check("after a reset", second, "one", "", "")
		sell("e", "cart", false, first, second)
		check("sold again", first, "cart")
		check("sold again", second, "one", "", "", "cart")
		sell("f", "more", false, first, second)
		check("sold once more", second, "one", "", "", "cart", "more")
		reset(t, r, second, 9, 0) // does not touch the answer
		sell("g", "more", true, first, second)
		check("after a reset of the other product", first, "cart", "more")
	})
}

// The refusal of a cart names the first product that is short. It is stored, even if another product has become short
// meanwhile.
func TestRedisSellCartShort(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, _ *testenv.RedisServer) {
		reset(t, r, 1, 1, 0)
		reset(t, r, 2, 1, 0)
		reset(t, r, 3, 0, 0)
		s := sale("a", "k", 1, 2, 3)
		rendered := 0
		refused := s.Refused
		s.Refused = func(i int) idempotency.Template {
			if rendered++; rendered == 1 {
				testkit.Must(t, r.Set(t.Context(), 2, 0))
			}
			return refused(i)
		}
		want := redisdb.Sold{Short: 1, Answer: &idempotency.Answer{Status: 409, Body: []byte("2 has 0")}}
		got, err := r.Sell(t.Context(), s)
		if diff := cmp.Diff(want, got); err != nil || diff != "" || rendered != 2 {
			t.Errorf("Sell() = %v, %d refusals rendered, want 2 (-want +got):\n%s", err, rendered, diff)
		}
		if f, err := storetest.Whole(t, r, 1); err != nil || f.Stock != 1 || len(f.Orders) != 0 {
			t.Errorf("Facts() of the first = %+v, %v, want its unit and no order: all or nothing", f, err)
		}
	})
}

// A lost answer: with a key the script is sent again, and finds its own answer; without one the outcome is unknown.
func TestRedisSellLostReply(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	direct := redisdb.New(s.Client, s.Prefix)
	reset(t, direct, 1, 5, 0)
	p, client := behindGate(t, s)
	through := redisdb.New(client, s.Prefix)
	_, err := through.Sell(t.Context(), sale("a", "", 1))
	testkit.Mustf(t, err, "Sell() through the proxy")
	lost := storetest.Cut(t, p, "^EVALSHA ")
	if _, err := through.Sell(t.Context(), sale("b", "", 1)); !errors.Is(err, store.ErrUnknown) ||
		!storetest.WasCut(lost) {
		t.Errorf("Sell() without a key, cut off: %t = %v, want ErrUnknown", storetest.WasCut(lost), err)
	}
	lost = storetest.Cut(t, p, "^EVALSHA ")
	got, err := through.Sell(t.Context(), sale("c", "k", 1))
	if err != nil || !got.Earlier || string(got.Answer.Body) != "c left 2, 2." || !storetest.WasCut(lost) {
		t.Errorf("Sell() with a key, cut off: %t = %+v, %v, want its own answer", storetest.WasCut(lost), got, err)
	}
	if f, err := storetest.Whole(t, direct, 1); err != nil || f.Stock != 2 || len(f.Orders) != 3 {
		t.Errorf("Facts() = %+v, %v, want 2 left and 3 orders: each sale once", f, err)
	}
}

// A sale whose answer was lost, and whose server is down since then, may have been made.
func TestRedisSellLostReplyThenDown(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	direct := redisdb.New(s.Client, s.Prefix)
	reset(t, direct, 1, 5, 0)
	o := *s.Client.Options()
	p := storetest.Gate(t, o.Addr, codec.Redis)
	var down atomic.Bool
	o.MaxRetries, o.DialerRetries = -1, 1
	o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		addr := p.Addr
		if down.Load() {
			addr = "127.0.0.1:1" // nobody
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	client := redis.NewClient(&o)
	defer client.Close()
	through := redisdb.New(client, s.Prefix)
	_, err := through.Sell(t.Context(), sale("a", "", 1))
	testkit.Mustf(t, err, "Sell() through the proxy")
	lost := p.Add(wire.Rule{Answer: true, Match: func(c wire.Call) bool { return strings.HasPrefix(c.Text, "EVALSHA ") }})
	go func() {
		<-lost.Reached()
		down.Store(true)
		lost.Drop(true)
	}()
	if _, err := through.Sell(t.Context(), sale("b", "k", 1)); !errors.Is(err, store.ErrUnknown) ||
		!storetest.WasCut(lost) {
		t.Errorf("Sell() of which the server knows, and is down = %v, want ErrUnknown", err)
	}
	if f, err := storetest.Whole(t, direct, 1); err != nil || f.Stock != 3 || len(f.Orders) != 2 {
		t.Errorf("Facts() = %+v, %v, want 3 left and 2 orders: it was made", f, err)
	}
}

// Sales that arrive while others are in flight share round trips, and a server that has lost the script gets it again.
func TestRedisSellTogether(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, s *testenv.RedisServer) {
		const clients, each = 40, 20
		reset(t, r, 1, clients*each-5, 0)
		var wg sync.WaitGroup
		var mu sync.Mutex
		left := map[int64]int{}
		refused := 0
		for c := range clients {
			wg.Go(func() {
				for i := range each {
					if c == 0 && i%10 == 5 {
						s.Client.ScriptFlush(t.Context())
					}
					got, err := r.Sell(t.Context(), sale(fmt.Sprintf("%d/%d/", c, i), "", 1))
					mu.Lock()
					switch {
					case err != nil:
						t.Errorf("Sell() = %v, want nil", err)
					case got.Short >= 0:
						refused++
					default:
						left[got.Remaining]++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(left) != clients*each-5 || refused != 5 {
			t.Errorf("%d different counts left, %d refused, want %d and 5", len(left), refused, clients*each-5)
		}
	})
}

func TestRedisSellRefused(t *testing.T) {
	t.Parallel()
	r, c := onCluster(t, 1)
	_, err := r.Sell(t.Context(), sale("a", "", 1, 2))
	testkit.IsError(t, err, store.ErrCrossSlot, "Sell() of two products in a cluster")
	reset(t, r, 3, 0, 0)
	for range 3 {
		_, err := r.Sell(t.Context(), sale("a", "k", 1, 2))
		testkit.IsError(t, err, store.ErrCrossSlot, "Sell() of two products with a key")
		if got, err := r.Sell(t.Context(), sale("a", "l", 3)); err != nil || got.Answer.Status == 200 {
			t.Errorf("Sell() of none = %+v, %v, want a refusal", got, err)
		}
		for _, claim := range []string{"key:k", "key:l"} {
			if ttl := c.PTTL(t.Context(), claim).Val(); ttl > 10*time.Second {
				t.Errorf("%s stays claimed for %v, want 10 s at most", claim, ttl)
			}
		}
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			_, err := r.Sell(t.Context(), sale("a", "m", 1, 2))
			testkit.IsError(t, err, store.ErrCrossSlot, "Sell() of two products at the same time")
		})
	}
	both.Wait()
	if c.Exists(t.Context(), "key:m").Val() != 0 {
		t.Error("the key of a cart that cannot be sold is claimed")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Sell(gone, sale("a", "", 1)); !errors.Is(err, store.ErrUnavailable) ||
		!errors.Is(err, context.Canceled) {
		t.Errorf("Sell() for a client that is gone = %v, want ErrUnavailable and why", err)
	}
}

// A sale for a buyer keeps to the limits of all its products, or does nothing; one without a buyer has no limit. A
// count with a limit is no number to the modes that read it.
func TestRedisSellForBuyer(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, _ *testenv.RedisServer) {
		reset(t, r, 1, 9, 0)
		testkit.Must(t, r.Reset(t.Context(), 2, 9, ledger.Rules{PerBuyer: 2}, noKeys))
		sell := func(id, key, buyer string, want error, products ...int64) {
			t.Helper()
			s := sale(id, key, products...)
			s.Buyer = buyer
			for i := range s.Orders {
				s.Orders[i].Buyer = buyer
			}
			if _, err := r.Sell(t.Context(), s); !errors.Is(err, want) {
				t.Errorf("Sell(%s) = %v, want %v", id, err, want)
			}
		}
		sell("a", "k1", "ann <é>", nil, 1, 2)
		sell("b", "", "ann <é>", nil, 2)
		sell("c", "k2", "ann <é>", store.ErrLimit, 1, 2)
		sell("a again", "k1", "ann <é>", nil, 1, 2)
		sell("d", "k2", "", nil, 1, 2)
		sell("e", "", "bob", nil, 2)
		for product, want := range map[int64]int{1: 2, 2: 4} {
			f, err := storetest.Whole(t, r, product)
			if err != nil || len(f.Orders) != want || f.Stock != int64(9-want) || f.Orders[0].Buyer != "ann <é>" {
				t.Errorf("Facts(%d) = %+v, %v, want %d orders, the first for ann", product, f, err, want)
			}
		}
		_, err := r.Read(t.Context(), 2)
		testkit.IsError(t, err, store.ErrOtherWay, "Read() of a product with a limit")
		_, _, err = r.Segments(t.Context(), 2)
		testkit.IsError(t, err, store.ErrOtherWay, "Segments() of a product with a limit")
	})
}

// A consumer that was idle for long is deleted when tickets are taken over, unless it has tickets itself.
func TestIdleConsumersAreForgotten(t *testing.T) {
	s, ctx := testenv.Redis(t), t.Context()
	r := redisdb.New(s.Client, s.Prefix)
	testkit.Must(t, r.Reset(ctx, 1, 9, ledger.Rules{Book: "1"}, noKeys))
	tickets := redisdb.NewTickets(r)
	for _, id := range []string{"a", "b", "c"} {
		_, err := tickets.Win(ctx, sale(id, "", 1), 5)
		testkit.Must(t, err)
	}
	read := func(consumer string, claim, forget time.Duration, want ...string) redisdb.Entry {
		t.Helper()
		tickets.Forget = forget
		got, _, err := tickets.Read(ctx, 1, consumer, claim, 1)
		if err != nil || len(got) != 1 {
			t.Fatalf("Read() by %s = %v, %v, want one ticket", consumer, got, err)
		}
		found := s.Client.XInfoConsumers(ctx, s.Prefix+"stream:{1}", "shop").Val()
		names := make([]string, len(found))
		for i, f := range found {
			names[i] = f.Name
		}
		if slices.Sort(names); !slices.Equal(names, want) {
			t.Errorf("consumers after a read by %s = %v, want %v", consumer, names, want)
		}
		return got[0]
	}
	ended := read("idle", time.Hour, 0, "idle")
	_, err := tickets.End(ctx, 1, []redisdb.Ended{{Entry: ended}})
	testkit.Must(t, err)
	read("dead", time.Hour, 0, "dead", "idle")
	read("holds", time.Hour, 0, "dead", "holds", "idle")
	read("heir", 0, time.Hour, "dead", "heir", "holds", "idle") // has the ticket of dead
	read("heir", 0, 0, "heir", "holds")
}

// Of a product whose consumers have more tickets in hand than a look takes, a look returns none.
func TestLookOfTooMany(t *testing.T) {
	s, ctx := testenv.Redis(t), t.Context()
	r := redisdb.New(s.Client, s.Prefix)
	tickets := redisdb.NewTickets(r)
	testkit.Must(t, r.Reset(ctx, 1, 9, ledger.Rules{Book: "1"}, noKeys))
	_, err := s.Client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range redisdb.MostLooked + 2 {
			id := uuid.NewString()
			p.HSet(ctx, s.Prefix+"tickets:{1}", id, 1)
			p.XAdd(ctx, &redis.XAddArgs{Stream: s.Prefix + "stream:{1}",
				Values: []any{"run", "1", "order", fmt.Sprintf(`{"id":%q}`, id)}})
		}
		return nil
	})
	testkit.Must(t, err)
	testkit.Must(t, s.Client.XGroupCreate(ctx, s.Prefix+"stream:{1}", "shop", "0").Err())
	give := func(n int64, want int) {
		t.Helper()
		testkit.Must(t, s.Client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "shop", Consumer: "a", Count: n,
			Streams: []string{s.Prefix + "stream:{1}", ">"}}).Err())
		look, err := tickets.Look(1)
		if err != nil || len(look.Tickets) != want || look.InFlight != redisdb.MostLooked+2 {
			t.Errorf("Look() = %d tickets, %d in flight, %v; want %d", len(look.Tickets), look.InFlight, err, want)
		}
	}
	give(redisdb.MostLooked, redisdb.MostLooked)
	give(1, 0)
}

// A ticket is told if a replica has it, also where it is told again by another connection: WAIT counts the writes of
// its own. While the replica does not answer it is unknown, and stands.
func TestTicketsWaitForReplicas(t *testing.T) {
	t.Parallel()
	nodes, ctx := testenv.RedisNodes(t, 2, "repl-diskless-sync-delay 0"), t.Context()
	connect := func(node *testenv.RedisNode) (*redis.Client, *redis.Options) {
		o, err := redis.ParseURL(node.URL)
		testkit.Must(t, err)
		o.MaxRetries, o.PoolSize = -1, 1
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		return c, o
	}
	c, o := connect(nodes[0])
	replica, _ := connect(nodes[1])
	host, port, _ := net.SplitHostPort(o.Addr)
	testkit.Must(t, errors.Join(replica.ConfigSet(ctx, "masterauth", o.Password).Err(),
		replica.ReplicaOf(ctx, host, port).Err()))
	testkit.Until(t, "a replica", func() bool {
		return strings.Contains(c.Info(ctx, "replication").Val(), "state=online")
	})
	r := redisdb.New(c, "")
	testkit.Must(t, r.Reset(ctx, 1, 9, ledger.Rules{Book: "1"}, noKeys))
	elsewhere, _ := connect(nodes[0])
	won, again := redisdb.NewTickets(r), redisdb.NewTickets(redisdb.New(elsewhere, ""))
	won.Replicas, again.Replicas = 1, 1
	for i, tickets := range []*redisdb.Tickets{won, again} {
		_, err := tickets.Win(ctx, sale(fmt.Sprint("u", i), "", 1), 5)
		testkit.Must(t, err)
	}
	testkit.Must(t, syscall.Kill(nodes[1].PID(), syscall.SIGSTOP))
	for _, tickets := range []*redisdb.Tickets{won, again} {
		_, err := tickets.Win(ctx, sale("w", "k", 1), 5)
		testkit.IsError(t, err, store.ErrUnknown, "Win() while the replica does not answer")
	}
	testkit.Must(t, syscall.Kill(nodes[1].PID(), syscall.SIGCONT))
	told, err := again.Win(ctx, sale("w", "k", 1), 5)
	if !told.Earlier || err != nil {
		t.Errorf("Win() once more = %+v, %v", told, err)
	}
}
