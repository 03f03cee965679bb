package redisdb_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/store"
	"lastitem/internal/store/redisdb"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

// onCluster returns a store on a Redis Cluster of one node, which refuses scripts across slots like any other cluster,
// and its client. That gets the address several times: a client with a single address takes the node for a plain
// server.
func onCluster(t *testing.T, addresses int) (*redisdb.Store, redis.UniversalClient) {
	t.Helper()
	o := testenv.RedisCluster(t, 1)
	node := url.URL{Scheme: "redis", User: url.UserPassword("", o.Password), Host: o.Addrs[0]}
	c, err := backend.OpenRedis(strings.Join(slices.Repeat([]string{node.String()}, addresses), ","), 4)
	testkit.Must(t, err)
	t.Cleanup(func() { c.Close() })
	return redisdb.New(c, ""), c
}

// of returns the sale with the fingerprint of the given payload.
func of(payload string, s redisdb.Sale) redisdb.Sale {
	s.Fingerprint = []byte(fmt.Sprintf("%-32s", payload))
	return s
}

// A key belongs to one request: a sale of another first product under it is refused, and the answer names the first.
func TestRedisKeyOfAnotherProduct(t *testing.T) {
	onClustersToo(t, func(t *testing.T, r *redisdb.Store, cluster bool) {
		reset(t, r, 1, 5, 0)
		reset(t, r, 2, 5, 0)
		if first, err := r.Sell(t.Context(), of("one", sale("a", "k", 1))); err != nil || first.Earlier {
			t.Fatalf("Sell() = %+v, %v, want a sale", first, err)
		}
		for range 2 {
			got, err := r.Sell(t.Context(), of("two", sale("b", "k", 2)))
			if err != nil || !got.Earlier || strings.TrimSpace(string(got.Fingerprint)) != "one" {
				t.Errorf("Sell() of another product with the same key = %+v, %v, want the earlier answer, of the first payload",
					got, err)
			}
		}
		if again, err := r.Sell(t.Context(), of("one", sale("c", "k", 1))); err != nil || !again.Earlier {
			t.Errorf("Sell() again = %+v, %v, want the earlier answer", again, err)
		}
		if f, err := storetest.Whole(t, r, 2); err != nil || f.Stock != 5 || len(f.Orders) != 0 {
			t.Errorf("Facts() of the other product = %+v, %v, want it untouched", f, err)
		}
		if f, err := storetest.Whole(t, r, 1); err != nil || f.Stock != 4 || len(f.Orders) != 1 {
			t.Errorf("Facts() of the product = %+v, %v, want one order", f, err)
		}
		// this frees the key: the remaining claim is void, but on a cluster it may be that of a sale in flight
		reset(t, r, 1, 5, 0)
		if got, err := r.Sell(t.Context(), of("two", sale("d", "k", 2))); claimed(err, 1) != cluster ||
			!cluster && (err != nil || got.Earlier) {
			t.Errorf("Sell() with a key whose product was reset = %+v, %v, want a sale, or on a cluster that it is busy, and "+
				"until when", got, err)
		}
	})
}

// betweenReads has meanwhile run once, after the first pipeline of its client.
type betweenReads struct {
	testenv.Hook
	meanwhile func()
}

func (h *betweenReads) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if f := h.meanwhile; f != nil && cmds[0].Name() == "hmget" {
			h.meanwhile = nil
			f()
		}
		return err
	}
}

// A sale finds that the claim of its key is void, as its product was set again. Before it sells, that product is sold
// under the key again.
func TestRedisVoidClaimIsClaimedAgain(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, c redis.UniversalClient, prefix, claim string) {
		r := redisdb.New(c, prefix)
		h := &betweenReads{}
		c.AddHook(h)
		reset(t, r, 1, 5, 0)
		reset(t, r, 2, 5, 0)
		testkit.Must(t, c.Set(t.Context(), prefix+"key:k", claim, 0).Err())
		h.meanwhile = func() {
			if got, err := r.Sell(t.Context(), of("one", sale("a", "k", 1))); err != nil || got.Earlier {
				t.Errorf("Sell() of the product that has the claim = %+v, %v, want a sale", got, err)
			}
		}
		got, err := r.Sell(t.Context(), of("two", sale("b", "k", 2)))
		if h.meanwhile != nil {
			t.Error("the answer of the product that has the claim was not looked up")
		}
		if f, err := storetest.Whole(t, r, 2); err != nil || f.Stock != 5 || len(f.Orders) != 0 {
			t.Errorf("Facts() of the other product = %+v, %v, want it untouched: the key was used", f, err)
		}
		if busy := claimed(err, 1); !busy && (err != nil || !got.Earlier ||
			strings.TrimSpace(string(got.Fingerprint)) != "one") {
			t.Errorf("Sell() = %+v, %v, want the answer of the first payload, or that the key is busy", got, err)
		}
	}
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		_, c := onCluster(t, 2)
		test(t, c, "", fmt.Sprint("1@", time.Now().Add(-time.Minute).UnixMilli()))
	})
	for name, open := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			test(t, s.Client, s.Prefix, "1@an-order")
		})
	}
}

// beforeSale runs a function before the script of the first sale of its client, which then does not reach Redis.
type beforeSale struct {
	testenv.Hook
	meanwhile func()
}

func (h *beforeSale) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if f := h.meanwhile; f != nil && cmd.Name() == "evalsha" && strings.HasPrefix(fmt.Sprint(cmd.Args()[3]), "answers:") {
			h.meanwhile = nil
			f()
			err := &net.OpError{Op: "dial", Err: errors.New("no route")}
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

// On a cluster a sale whose server cannot be reached gives its claim up, but not that of the same request at another
// replica, which sold.
func TestRedisFailedSaleLeavesTheClaim(t *testing.T) {
	t.Parallel()
	r, c := onCluster(t, 2)
	h := &beforeSale{}
	c.AddHook(h)
	reset(t, r, 1, 5, 0)
	h.meanwhile = func() {
		time.Sleep(2 * time.Millisecond) // claims have the time, in milliseconds
		if got, err := redisdb.New(c, "").Sell(t.Context(), of("one", sale("a", "k", 1))); err != nil || got.Earlier {
			t.Errorf("Sell() = %+v, %v, want a sale", got, err)
		}
	}
	if _, err := r.Sell(t.Context(), of("one", sale("b", "k", 1))); !errors.Is(err, store.ErrUnavailable) ||
		h.meanwhile != nil {
		t.Errorf("Sell() without a server = %v, want ErrUnavailable", err)
	}
	if ttl := c.PTTL(t.Context(), "key:k").Val(); ttl >= 0 && ttl < time.Minute {
		t.Errorf("the claim of the sale ends in %s, want that it stays", ttl)
	}
}

// claimed reports whether a key is in use for a product, with sensible times.
func claimed(err error, product int64) bool {
	busy, ok := errors.AsType[*redisdb.KeyBusyError](err)
	return ok && busy.Product == product && busy.Held >= 0 && busy.Left > 0 && busy.Left <= 30*time.Second
}

// Refusals cost their sender nothing, so the number kept per product is bounded, and none are kept for an unknown
// product.
func TestRedisRefusalsAreBounded(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, s *testenv.RedisServer) {
		reset(t, r, 1, 0, 0)
		refuse := func(key string) redisdb.Sold {
			got, err := r.Sell(t.Context(), sale("a", key, 1))
			if err != nil {
				t.Fatalf("Sell() of none = %v, want a refusal", err)
			}
			return got
		}
		refuse("first")
		if got := refuse("first"); !got.Earlier {
			t.Errorf("Sell() again = %+v, want the refusal kept", got)
		}
		fill := func() {
			var fields []any
			for i := range 10_000 {
				fields = append(fields, fmt.Sprint("filler", i), strings.Repeat("x", 40))
			}
			testkit.Must(t, s.Client.HSet(t.Context(), s.Prefix+"refusals:{1}", fields...).Err())
		}
		fill()
		refuse("second") // the full hash is replaced
		if got := refuse("first"); !got.Earlier {
			t.Errorf("Sell() again after 10,000 others = %+v, want the refusal kept", got)
		}
		fill()
		refuse("third")
		if got := refuse("first"); got.Earlier {
			t.Errorf("Sell() again after 20,000 others = %+v, want it refused for itself", got)
		}
		for _, family := range []string{"refusals", "refusals-old"} {
			n, err := s.Client.HLen(t.Context(), s.Prefix+family+":{1}").Result()
			if ttl := s.Client.PTTL(t.Context(), s.Prefix+family+":{1}").Val(); err != nil || n > 10_001 || ttl <= 0 {
				t.Errorf("%s holds %d for %s, %v, want 10,001 at most, for a time", family, n, ttl, err)
			}
		}
		_, err := r.Sell(t.Context(), sale("a", "nobody's", 99))
		testkit.IsError(t, err, store.ErrUnknownProduct, "Sell() of a product that nobody made")
		for _, family := range []string{"key:nobody's", "answers:{99}", "refusals:{99}"} {
			if s.Client.Exists(t.Context(), s.Prefix+family).Val() != 0 {
				t.Errorf("%s is there, want nothing kept of a product that nobody made", family)
			}
		}
	})
}

// full fills a Redis with refusals and sales until it takes no more.
func full(t *testing.T, r *redisdb.Store) {
	t.Helper()
	reset(t, r, 1, 0, 0)
	reset(t, r, 2, 1_000_000, 0)
	pad := strings.Repeat("p", 4000)
	for i := range 100_000 {
		s := sale("a", fmt.Sprint("key", i), int64(1+i%2))
		s.Orders[0].Mode = pad
		if _, err := r.Sell(t.Context(), s); errors.Is(err, store.ErrUnavailable) && i%2 == 1 {
			return
		}
	}
	t.Fatal("it took them all")
}

// If Redis is full, setting the stock still works and frees the product's data, and its sales go on. Tickets are read
// and ended, and none is won.
func TestRedisResetWhereMemoryIsFull(t *testing.T) {
	t.Parallel()
	node := testenv.RedisNodes(t, 1, "maxmemory-policy noeviction")[0]
	c, err := backend.OpenRedis(node.URL, 4)
	testkit.Must(t, err)
	defer c.Close()
	r := redisdb.New(c, "p:")
	reset(t, r, 3, 1, 0)
	tickets := redisdb.NewTickets(r)
	testkit.Must(t, r.Reset(t.Context(), 4, 9, ledger.Rules{Book: "1"}, noKeys))
	_, err = tickets.Win(t.Context(), sale("won", "", 4), 5)
	testkit.Must(t, err)
	var used int64
	info := c.Info(t.Context(), "memory").Val()
	_, rest, _ := strings.Cut(info, "used_memory:")
	_, err = fmt.Sscanf(rest, "%d", &used)
	testkit.Must(t, err)
	testkit.Must(t, c.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(used+4<<20)).Err())
	full(t, r)
	// the memory that the last command used is free again
	for i := 0; c.Set(t.Context(), fmt.Sprint("x", i), "y", 0).Err() == nil; i++ {
	}
	_, err = tickets.Win(t.Context(), sale("late", "", 4), 5)
	testkit.IsError(t, err, store.ErrUnavailable, "Win()")
	read, _, err := tickets.Read(t.Context(), 4, "a", time.Hour, 5)
	if err != nil || len(read) != 1 || read[0].Order.ID != "won0" {
		t.Fatalf("Read() = %+v, %v, want the ticket", read, err)
	}
	n, err := tickets.End(t.Context(), 4, []redisdb.Ended{{Entry: read[0]}})
	testkit.Must(t, err)
	testkit.Is(t, n, 1, "tickets ended")
	if n, err := r.Add(t.Context(), 3, 1); n != 2 || err != nil {
		t.Errorf("Add(1), which puts back = %d, %v, want 2", n, err)
	}
	testkit.Is(t, r.Append(t.Context(), storetest.SomeOrder("late", 3)), nil, "Append(), after the count was written")
	testkit.Is(t, r.FinishSet(t.Context(), 3, 5), nil, "FinishSet(), after another count was written")
	testkit.IsError(t, r.Set(t.Context(), 3, 5), store.ErrUnavailable, "Set()")
	_, err = r.Add(t.Context(), 3, -1)
	testkit.IsError(t, err, store.ErrUnavailable, "Add(-1), which takes")
	reset(t, r, 3, 7, 2) // nothing to free: it must work all the same
	if f, err := storetest.Whole(t, r, 3); err != nil || f.Stock != 7 || f.Initial != 7 {
		t.Errorf("Facts() = %+v, %v, want 7 units", f, err)
	}
	reset(t, r, 2, 5, 0)
	ctx := testkit.Within(t, testenv.Still)
	for ctx.Err() == nil {
		if _, err = r.Sell(ctx, sale("b", "again", 2)); err == nil {
			break
		}
	}
	if f, ferr := storetest.Whole(t, r, 2); err != nil || ferr != nil || f.Stock != 4 || len(f.Orders) != 1 {
		t.Errorf("a minute after the reset Sell() = %v and Facts() = %+v, %v, want a sale, and one order", err, f, ferr)
	}
}
