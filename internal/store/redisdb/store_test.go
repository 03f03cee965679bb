package redisdb_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/store"
	"lastitem/internal/store/redisdb"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

// servers are the real and the embedded Redis.
var servers = map[string]func(testing.TB) *testenv.RedisServer{"redis": testenv.Redis, "miniredis": testenv.Miniredis}

// onEachRedis runs a test on the real and on the embedded Redis.
func onEachRedis(t *testing.T, test func(*testing.T, *redisdb.Store, *testenv.RedisServer)) {
	testkit.Each(t, servers, func(t *testing.T, open func(testing.TB) *testenv.RedisServer) {
		r := open(t)
		test(t, redisdb.New(r.Client, r.Prefix), r)
	})
}

// onClustersToo runs a test on each Redis, and on a cluster, with its own client and with that of a plain server.
func onClustersToo(t *testing.T, test func(t *testing.T, r *redisdb.Store, cluster bool)) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, _ *testenv.RedisServer) { test(t, r, false) })
	for name, addresses := range map[string]int{"cluster": 2, "node of a cluster": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := onCluster(t, addresses)
			test(t, r, true)
		})
	}
}

func noKeys(int) []string { return nil }

func reset(t *testing.T, r *redisdb.Store, product, stock int64, segments int) {
	t.Helper()
	err := r.Reset(t.Context(), product, stock, ledger.Rules{Segments: segments}, noKeys)
	testkit.Mustf(t, err, "Reset(%d, %d, %d)", product, stock, segments)
}

func TestRedisReadsWhatItWrote(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, _ *testenv.RedisServer) {
		_, err := r.Read(t.Context(), 1)
		testkit.IsError(t, err, store.ErrUnknownProduct, "Read() of a product that nobody made")
		reset(t, r, 1, 5, 0)
		testkit.Is(t, r.Set(t.Context(), 1, -3), nil, "Set()")
		if n, err := r.Read(t.Context(), 1); n != -3 || err != nil {
			t.Errorf("Read() = %d, %v, want -3", n, err)
		}
		a, b := storetest.SomeOrder("a", 1), storetest.SomeOrder("b", 1)
		b.Remaining, b.Key = nil, nil
		for _, o := range []ledger.Order{a, b} {
			testkit.Is(t, r.Append(t.Context(), o), nil, "Append()")
		}
		storetest.WantFacts(t, r, 1, ledger.Facts{Initial: 5, Stock: -3, Orders: []ledger.Order{a, b}}, "after the writes")
	})
}

func TestRedisSplitsIntoSegments(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, _ *testenv.RedisServer) {
		for _, c := range []struct {
			stock    int64
			segments int
			want     []int64
		}{
			{10, 3, []int64{4, 3, 3}}, {2, 4, []int64{1, 1, 0, 0}}, {0, 2, []int64{0, 0}}, {7, 1, []int64{7}},
			{9, 3, []int64{3, 3, 3}},
		} {
			reset(t, r, 1, c.stock, c.segments)
			counts, split, err := r.Segments(t.Context(), 1)
			if diff := cmp.Diff(c.want, counts); err != nil || !split || diff != "" {
				t.Errorf("%d in %d segments: split %t, %v (-want +got):\n%s", c.stock, c.segments, split, err, diff)
			}
			_, err = r.Read(t.Context(), 1)
			testkit.IsError(t, err, store.ErrSegmented, "Read() of a segmented product")
			f, err := r.Facts(t.Context(), 1)
			if err != nil || f.Initial != c.stock || f.Stock != c.stock || !cmp.Equal(f.Segments, c.want) {
				t.Errorf("Facts() = %+v, %v, want %d in %v", f, err, c.stock, c.want)
			}
		}
		reset(t, r, 1, 6, 0)
		if counts, split, err := r.Segments(t.Context(), 1); err != nil || split || !cmp.Equal(counts, []int64{6}) {
			t.Errorf("Segments() of one counter = %v, %t, %v, want [6], false", counts, split, err)
		}
		if n, err := r.ReadSegment(t.Context(), 1, 0, false); n != 6 || err != nil {
			t.Errorf("ReadSegment() of one counter = %d, %v, want 6", n, err)
		}
	})
}

// On a cluster the segments of a product lie in several slots, so no transaction reaches all of them.
func TestRedisSetSegments(t *testing.T) {
	onClustersToo(t, func(t *testing.T, r *redisdb.Store, _ bool) {
		reset(t, r, 1, 10, 3)
		f, p, err := r.Snapshot(t.Context(), 1, ledger.Want{Orders: 3})
		if err != nil || !slices.Equal(f.Segments, []int64{4, 3, 3}) || f.Stock != 10 || !p.End() {
			t.Errorf("Snapshot() = %+v, %+v, %v, want segments of 4, 3 and 3", f, p, err)
		}
		for _, counts := range []map[int]int64{{1: 0}, {0: 1, 2: 2}} {
			testkit.Is(t, r.SetSegments(t.Context(), 1, counts, true), nil, "SetSegments(%v)", counts)
		}
		want := []int64{1, 0, 2}
		if counts, _, err := r.Segments(t.Context(), 1); err != nil || !cmp.Equal(counts, want) {
			t.Errorf("Segments() = %v, %v, want %v", counts, err, want)
		}
		if f, _, err := r.Snapshot(t.Context(), 1, ledger.Want{Orders: 5}); err != nil || !slices.Equal(f.Segments, want) {
			t.Errorf("Snapshot() = %+v, %v, want the segments %v", f, err, want)
		}
		if n, err := r.ReadSegment(t.Context(), 1, 2, true); n != 2 || err != nil {
			t.Errorf("ReadSegment(2) = %d, %v, want 2", n, err)
		}
	})
}

func TestRedisResetClears(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, s *testenv.RedisServer) {
		reset(t, r, 1, 9, 5)
		testkit.Must(t, r.Append(t.Context(), storetest.SomeOrder("a", 1)))
		lock := s.Prefix + "lock"
		s.Client.Set(t.Context(), lock, "x", 0)
		told := -1
		err := r.Reset(t.Context(), 1, 4, ledger.Rules{Segments: 2}, func(segments int) []string {
			told = segments
			return []string{lock}
		})
		if err != nil || told != 5 {
			t.Errorf("Reset() = %v, told of %d segments, want 5: the more of old and new", err, told)
		}
		want := []string{"adjusts:{1}", "initial:{1}", "stock:{1#0}", "stock:{1#1}", "stock:{1}"}
		testkit.Same(t, keys(t, s), want, "keys after Reset()")
	})
}

func keys(t *testing.T, s *testenv.RedisServer) []string {
	t.Helper()
	found, err := s.Client.Keys(t.Context(), s.Prefix+"*").Result()
	testkit.Must(t, err)
	for i, k := range found {
		found[i] = strings.TrimPrefix(k, s.Prefix)
	}
	slices.Sort(found)
	return found
}

// Damaged data is unavailable, neither an unknown product nor zero, and a reset repairs it.
func TestRedisDamagedData(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, s *testenv.RedisServer) {
		for name, damage := range map[string]func(context.Context, *redis.Client, string){
			"count is a word": func(ctx context.Context, c *redis.Client, p string) { c.Set(ctx, p+"stock:{1}", "many", 0) },
			"count is empty":  func(ctx context.Context, c *redis.Client, p string) { c.Set(ctx, p+"stock:{1}", "", 0) },
			"mark is a word": func(ctx context.Context, c *redis.Client, p string) {
				c.Set(ctx, p+"stock:{1}", "segmented:many", 0)
			},
			"segment is gone": func(ctx context.Context, c *redis.Client, p string) { c.Del(ctx, p+"stock:{1#1}") },
			"segment is a word": func(ctx context.Context, c *redis.Client, p string) {
				c.Set(ctx, p+"stock:{1#1}", "few", 0)
			},
			"initial is gone":     func(ctx context.Context, c *redis.Client, p string) { c.Del(ctx, p+"initial:{1}") },
			"order is no JSON":    func(ctx context.Context, c *redis.Client, p string) { c.RPush(ctx, p+"orders:{1}", "{") },
			"orders are a string": func(ctx context.Context, c *redis.Client, p string) { c.Set(ctx, p+"orders:{1}", "x", 0) },
		} {
			reset(t, r, 1, 8, 2)
			damage(t.Context(), s.Client, s.Prefix)
			_, err := storetest.Whole(t, r, 1)
			testkit.IsError(t, err, store.ErrUnavailable, "%s: Facts()", name)
			reset(t, r, 1, 8, 2)
			_, err = storetest.Whole(t, r, 1)
			testkit.Is(t, err, nil, "%s: Facts() after a reset", name)
		}
	})
}

// behindGate returns a client that reaches a Redis through a proxy.
func behindGate(t *testing.T, s *testenv.RedisServer) (*wire.Proxy, redis.UniversalClient) {
	t.Helper()
	addr := s.Client.Options().Addr
	p := storetest.Gate(t, addr, codec.Redis)
	c, err := backend.OpenRedis(strings.Replace(s.URL, addr, p.Addr, 1), 4)
	testkit.Must(t, err)
	t.Cleanup(func() { c.Close() })
	return p, c
}

// The answer is lost after the server has acted: the store must neither report that it did not happen, nor send it
// again.
func TestRedisLostReply(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t)
	direct := redisdb.New(s.Client, s.Prefix)
	for name, c := range map[string]struct {
		pattern string
		write   func(context.Context, *redisdb.Store) error
		product int64
		want    ledger.Facts
	}{
		"Set": {"^SET ", func(ctx context.Context, r *redisdb.Store) error { return r.Set(ctx, 1, 4) },
			1, ledger.Facts{Initial: 5, Stock: 4, Orders: []ledger.Order{}}},
		"Append": {"^RPUSH ", func(ctx context.Context, r *redisdb.Store) error {
			return r.Append(ctx, storetest.SomeOrder("a", 1))
		}, 1, ledger.Facts{Initial: 5, Stock: 5, Orders: []ledger.Order{storetest.SomeOrder("a", 1)}}},
		"SetSegments one": {"^SET ", func(ctx context.Context, r *redisdb.Store) error {
			return r.SetSegments(ctx, 2, map[int]int64{0: 1}, true)
		}, 2, ledger.Facts{Initial: 6, Stock: 4, Sold: ledger.InSegments, Segments: []int64{1, 3}, Orders: []ledger.Order{}}},
		"SetSegments two": {"EXEC", func(ctx context.Context, r *redisdb.Store) error {
			return r.SetSegments(ctx, 2, map[int]int64{0: 1, 1: 1}, true)
		}, 2, ledger.Facts{Initial: 6, Stock: 2, Sold: ledger.InSegments, Segments: []int64{1, 1}, Orders: []ledger.Order{}}},
	} {
		reset(t, direct, 1, 5, 0)
		reset(t, direct, 2, 6, 2)
		p, client := behindGate(t, s)
		through := redisdb.New(client, s.Prefix)
		_, err := through.Read(t.Context(), 1)
		testkit.Mustf(t, err, "Read() through the proxy")
		lost := storetest.Cut(t, p, c.pattern)
		if err := c.write(t.Context(), through); !errors.Is(err, store.ErrUnknown) || !storetest.WasCut(lost) {
			t.Errorf("%s, cut off: %t = %v, want ErrUnknown", name, storetest.WasCut(lost), err)
		}
		storetest.WantFacts(t, direct, c.product, c.want, name+" was applied, though")
	}
}

func TestRedisRefused(t *testing.T) {
	t.Parallel()
	c, err := backend.OpenRedis("redis://127.0.0.1:1/0", 1)
	testkit.Must(t, err)
	defer c.Close()
	down := redisdb.New(c, "")
	s := testenv.Redis(t)
	s.Client.RPush(t.Context(), s.Prefix+"orders:{1}", "a list")
	s.Client.Set(t.Context(), s.Prefix+"orders:{2}", "no list", 0)
	up := redisdb.New(s.Client, s.Prefix)
	_, readErr := down.Read(t.Context(), 1)
	_, sellErr := down.Sell(t.Context(), sale("a", "", 1))
	for name, err := range map[string]error{
		"Read from nobody":    readErr,
		"Sell to nobody":      sellErr,
		"Set to nobody":       down.Set(t.Context(), 1, 1),
		"Append to nobody":    down.Append(t.Context(), storetest.SomeOrder("a", 1)),
		"Reset at nobody":     down.Reset(t.Context(), 1, 1, ledger.Rules{}, noKeys),
		"answered with error": up.Append(t.Context(), storetest.SomeOrder("a", 2)),
	} {
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s = %v, want ErrUnavailable: nothing was changed", name, err)
		}
	}
}

// What a server of a cluster says while it is not ready, or a slot moves, means that nothing happened, whatever was
// sent.
func TestRedisNotReady(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	c, err := backend.OpenRedis("redis://"+m.Addr()+",redis://"+m.Addr(), 4)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	r := redisdb.New(c, "")
	reset(t, r, 1, 5, 0)
	reset(t, r, 2, 6, 2)
	left := int64(4)
	take := func(int64) (ledger.Order, error) { return ledger.Order{ID: "w", ProductID: 1, Remaining: &left}, nil }
	for _, said := range []string{"CLUSTERDOWN Hash slot not served", "LOADING the dataset",
		"TRYAGAIN during rehashing of slot", "MASTERDOWN"} {
		m.SetError(said)
		_, added := r.Add(t.Context(), 1, -1)
		_, sold := r.Sell(t.Context(), sale("s", "", 1))
		_, keyed := r.Sell(t.Context(), of("one", sale("s", "k", 1)))
		for name, err := range map[string]error{
			"Set": r.Set(t.Context(), 1, 1), "FinishSet": r.FinishSet(t.Context(), 1, 1), "Add": added, "Sell": sold,
			"Sell with a key": keyed,
			"Append":          r.Append(t.Context(), storetest.SomeOrder("a", 1)),
			"Reset":           r.Reset(t.Context(), 2, 1, ledger.Rules{Segments: 2}, noKeys),
			"SetSegments":     r.SetSegments(t.Context(), 2, map[int]int64{0: 1, 1: 1}, true),
			"Watch": r.Watch(t.Context(), 1, take, func(ctx context.Context, f func(context.Context) error) error {
				return f(ctx)
			}),
		} {
			if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
				t.Errorf("%s after %s = %v, want ErrUnavailable: nothing was changed", name, said, err)
			}
		}
		m.SetError("")
	}
}

func TestRedisKeysCarryHashTags(t *testing.T) {
	t.Parallel()
	s := testenv.Miniredis(t)
	r := redisdb.New(s.Client, s.Prefix)
	reset(t, r, 101, 2, 2)
	testkit.Must(t, r.Append(t.Context(), storetest.SomeOrder("a", 101)))
	want := []string{"adjusts:{101}", "initial:{101}", "orders:{101}", "stock:{101#0}", "stock:{101#1}", "stock:{101}"}
	testkit.Same(t, keys(t, s), want, "keys")
}

// A reset that has deleted the orders, and then cannot set the count, does not say that nothing happened.
func TestRedisResetHalfDone(t *testing.T) {
	t.Parallel()
	node := testenv.RedisNodes(t, 1)[0]
	admin, err := backend.OpenRedis(node.URL, 1)
	testkit.Must(t, err)
	defer admin.Close()
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "half", "on", ">half", "~*", "+@all", "-eval",
		"-evalsha").Err(); err != nil {
		t.Fatal(err)
	}
	reset(t, redisdb.New(admin, ""), 1, 5, 0)
	u, err := url.Parse(node.URL)
	testkit.Must(t, err)
	u.User = url.UserPassword("half", "half")
	c, err := backend.OpenRedis(u.String(), 1)
	testkit.Must(t, err)
	defer c.Close()
	if err := redisdb.New(c, "").Reset(t.Context(), 1, 9, ledger.Rules{}, noKeys); !errors.Is(err, store.ErrUnknown) ||
		!strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("Reset() = %v, want ErrUnknown, because of a refusal", err)
	}
}
