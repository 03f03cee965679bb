package plain_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"lastitem/examples/plain"
	"lastitem/internal/lock"
	"lastitem/internal/lock/textbook"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// tables are the statements in the comments of the files.
var tables = regexp.MustCompile(`(?ms)^//\tCREATE TABLE .*?;$`)

// shop is a database with the tables that a file's comment has, and one product.
func shop(t *testing.T, file string, units int) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", testenv.MySQL(t))
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	source, err := os.ReadFile(file)
	testkit.Must(t, err)
	for _, m := range tables.FindAllString(string(source), -1) {
		_, err := db.ExecContext(t.Context(), strings.ReplaceAll(m, "//\t", ""))
		testkit.Must(t, err)
	}
	insert := "INSERT INTO stock (product, units) VALUES (101, ?)"
	if file == "sql_version.go" {
		insert = "INSERT INTO stock (product, units, version) VALUES (101, ?, 0)"
	}
	_, err = db.ExecContext(t.Context(), insert, units)
	testkit.Must(t, err)
	return db
}

// Sixty buyers want forty units, each buyer twice with one key where there are keys: forty orders, none left, and
// twenty buyers are told so.
func TestSellOut(t *testing.T) {
	t.Parallel()
	const units, buyers = 40, 60
	type buy func(ctx context.Context, buyer int) error
	for name, way := range map[string]struct {
		file, orders string
		of           func(t *testing.T, db *sql.DB) buy
	}{
		"atomic": {"sql_atomic.go", "orders", func(_ *testing.T, db *sql.DB) buy {
			return func(ctx context.Context, _ int) error { return plain.Atomic(ctx, db, 101, 1) }
		}},
		"for update": {"sql_for_update.go", "orders", func(_ *testing.T, db *sql.DB) buy {
			return func(ctx context.Context, _ int) error { return plain.ForUpdate(ctx, db, 101, 1) }
		}},
		"version": {"sql_version.go", "orders", func(_ *testing.T, db *sql.DB) buy {
			return insist(func(ctx context.Context, _ int) error { return plain.Version(ctx, db, 101, 1) })
		}},
		"lease-seq": {"sql_version.go", "orders", func(t *testing.T, db *sql.DB) buy {
			c := client(t)
			return func(ctx context.Context, _ int) error { return plain.LeaseSeq(ctx, db, c, 101, 1) }
		}},
		"lease-seq without Redis": {"sql_version.go", "orders", func(t *testing.T, db *sql.DB) buy {
			c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
			t.Cleanup(func() { _ = c.Close() })
			return insist(func(ctx context.Context, _ int) error { return plain.LeaseSeq(ctx, db, c, 101, 1) })
		}},
		"idempotent": {"idempotent.go", "sales", func(_ *testing.T, db *sql.DB) buy {
			return func(ctx context.Context, buyer int) error {
				err := plain.Idempotent(ctx, db, fmt.Sprint(buyer), 101, 1)
				return errors.Join(err, plain.Idempotent(ctx, db, fmt.Sprint(buyer), 101, 1))
			}
		}},
		"queue": {"sql_atomic.go", "orders", func(t *testing.T, db *sql.DB) buy {
			q := plain.NewQueue(t.Context(), db, 101)
			return func(ctx context.Context, _ int) error { return q.Deduct(ctx, 1) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := shop(t, way.file, units)
			sells(t, units, buyers, way.of(t, db))
			var left, orders int
			testkit.Must(t, db.QueryRowContext(t.Context(), "SELECT units, (SELECT COUNT(*) FROM "+way.orders+
				") FROM stock").Scan(&left, &orders))
			if left != 0 || orders != units {
				t.Errorf("%d units left and %d orders, want 0 and %d", left, orders, units)
			}
		})
	}
	t.Run("lua", func(t *testing.T) {
		t.Parallel()
		c, product := client(t), rand.Int64() // the server is shared
		testkit.Must(t, c.Set(t.Context(), fmt.Sprintf("stock:{%d}", product), units, 0).Err())
		sells(t, units, buyers, func(ctx context.Context, buyer int) error {
			left, err := plain.Lua(ctx, c, fmt.Sprint(buyer), product, 1)
			again, err2 := plain.Lua(ctx, c, fmt.Sprint(buyer), product, 1)
			if left != again {
				t.Errorf("the same key was answered %d and %d", left, again)
			}
			return errors.Join(err, err2)
		})
		if n := c.LLen(t.Context(), fmt.Sprintf("orders:{%d}", product)).Val(); n != units {
			t.Errorf("%d orders, want %d", n, units)
		}
	})
}

// locks are the boxes that run work under a lock.
var locks = map[string]func(context.Context, redis.UniversalClient, string, func(context.Context) error) error{
	"watchdog": plain.Watchdog, "handoff": plain.Handoff,
}

// client is a client as go-redis makes it, with its retries.
func client(t *testing.T) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(testenv.Redis(t).URL)
	testkit.Must(t, err)
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// The same with a read, a check and a write of their own, which only the lock keeps together.
func TestSellOutUnderALock(t *testing.T) {
	t.Parallel()
	const units, buyers = 40, 60
	for name, locked := range locks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, key := client(t), fmt.Sprintf("lock:{%d}", rand.Int64())
			stock, orders := key+":stock", key+":orders"
			testkit.Must(t, c.Set(t.Context(), stock, units, time.Minute).Err())
			sells(t, units, buyers, func(ctx context.Context, buyer int) error {
				return locked(ctx, c, key, func(ctx context.Context) error {
					left, err := c.Get(ctx, stock).Int()
					if err != nil || left == 0 {
						return cmp.Or(err, plain.ErrSoldOut)
					}
					return errors.Join(c.Set(ctx, stock, left-1, redis.KeepTTL).Err(), c.RPush(ctx, orders, buyer).Err())
				})
			})
			n, left := c.LLen(t.Context(), orders).Val(), c.Get(t.Context(), stock).Val()
			rest := c.Exists(t.Context(), key, key+":queue").Val()
			if n != units || left != "0" || rest != 0 {
				t.Errorf("%d orders, %s units left and %d keys of the lock, want %d, 0 and 0", n, left, rest, units)
			}
		})
	}
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		c, product := testenv.Etcd(t).EtcdClient(t), rand.Int64()
		_, err := c.Put(t.Context(), fmt.Sprintf("stock/%d", product), fmt.Sprint(units))
		testkit.Must(t, err)
		sells(t, units, buyers, func(ctx context.Context, _ int) error { return plain.Etcd(ctx, c, product, 1) })
		orders, err := c.Get(t.Context(), fmt.Sprintf("orders/%d/", product), clientv3.WithPrefix())
		testkit.Must(t, err)
		stock, err := c.Get(t.Context(), fmt.Sprintf("stock/%d", product))
		testkit.Must(t, err)
		if left := string(stock.Kvs[0].Value); left != "0" || orders.Count != units {
			t.Errorf("%s units left and %d orders, want 0 and %d", left, orders.Count, units)
		}
	})
}

// A holder whose lock is deleted hears of it, a waiter that gives up or has died blocks nobody, and a holder that has
// died does so for its TTL only.
func TestLocksEnd(t *testing.T) {
	t.Parallel()
	for name, locked := range locks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, key := client(t), fmt.Sprintf("lock:{%d}", rand.Int64())
			free := func(context.Context) error { return nil }
			err := locked(t.Context(), c, key, func(ctx context.Context) error {
				testkit.Must(t, c.RPush(ctx, key+":queue", "dead").Err())
				short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				if err := locked(short, c, key, free); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a waiter that gave up: %v", err)
				}
				return nil
			})
			testkit.Must(t, err)
			soon, cancel := context.WithTimeout(t.Context(), 9*time.Second) // sooner than the TTL
			defer cancel()
			err = locked(soon, c, key, func(ctx context.Context) error {
				testkit.Must(t, c.Del(ctx, key, key+":queue").Err())
				<-ctx.Done()
				return context.Cause(ctx)
			})
			if !errors.Is(err, plain.ErrLost) {
				t.Errorf("a lost lock: %v, want %v", err, plain.ErrLost)
			}
			dead := map[string]func() error{
				"watchdog": func() error { return c.HSet(t.Context(), key, "dead:1", 1).Err() },
				"handoff":  func() error { return c.Set(t.Context(), key, "dead", 0).Err() },
			}[name]
			testkit.Must(t, errors.Join(dead(), c.PExpire(t.Context(), key, 200*time.Millisecond).Err()))
			testkit.Must(t, locked(t.Context(), c, key, free))
		})
	}
}

// If the lock of etcd is lost between the read and the write, nothing is written.
func TestEtcdAsksInTheWrite(t *testing.T) {
	t.Parallel()
	server, product, txns := testenv.Etcd(t), rand.Int64(), 0
	rival := server.EtcdClient(t)
	c := server.EtcdClient(t, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any,
		conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		if strings.HasSuffix(method, "/Txn") {
			if txns++; txns == 2 { // the first one took the lock
				_, err := rival.Delete(ctx, fmt.Sprintf("lock/%d/", product), clientv3.WithPrefix())
				testkit.Must(t, err)
			}
		}
		return call(ctx, method, req, reply, conn, opts...)
	}))
	_, err := rival.Put(t.Context(), fmt.Sprintf("stock/%d", product), "1")
	testkit.Must(t, err)
	if err := plain.Etcd(t.Context(), c, product, 1); !errors.Is(err, plain.ErrContended) {
		t.Errorf("without its lock: %v, want %v", err, plain.ErrContended)
	}
	testkit.Must(t, plain.Etcd(t.Context(), c, product, 1))
}

// Watchdog and the lock that the tests of textbook hold against Redisson exclude and wake each other.
func TestWatchdogIsRedissons(t *testing.T) {
	t.Parallel()
	c, key := client(t), fmt.Sprintf("lock:{%d}", rand.Int64())
	wakeups := textbook.NewWakeups(c)
	defer func() { _ = wakeups.Close() }()
	other := textbook.NewWatchdog(c, time.Hour, wakeups, nil)
	lease, err := other.Acquire(t.Context(), key)
	testkit.Must(t, err)
	var released atomic.Bool
	time.AfterFunc(100*time.Millisecond, func() { released.Store(true); _ = lease.Release(t.Context()) })
	testkit.Must(t, plain.Watchdog(t.Context(), c, key, func(ctx context.Context) error {
		_, err := other.Acquire(lock.WithWait(ctx, 0), key)
		if !released.Load() || !errors.Is(err, lock.ErrBusy) {
			t.Errorf("released: %t, and the other one says %v under the lock", released.Load(), err)
		}
		return nil
	}))
	soon := lock.WithWait(t.Context(), 5*time.Second)
	testkit.Must(t, lock.Do(soon, other, key, func(lock.Lease) error { return nil }))
}

// insist buys again after ErrContended.
func insist(buy func(context.Context, int) error) func(context.Context, int) error {
	return func(ctx context.Context, buyer int) (err error) {
		for err = plain.ErrContended; errors.Is(err, plain.ErrContended); {
			err = buy(ctx, buyer)
		}
		return err
	}
}

// sells lets all buyers buy at once and counts the answers.
func sells(t *testing.T, units, buyers int, buy func(context.Context, int) error) {
	t.Helper()
	var all sync.WaitGroup
	var sold, out atomic.Int64
	for i := range buyers {
		all.Go(func() {
			switch err := buy(t.Context(), i); {
			case err == nil:
				sold.Add(1)
			case errors.Is(err, plain.ErrSoldOut):
				out.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if sold.Load() != int64(units) || out.Load() != int64(buyers-units) {
		t.Errorf("%d were told that they have a unit and %d that it is sold out, want %d and %d", sold.Load(), out.Load(),
			units, buyers-units)
	}
}

// A quantity below one, a missing key and one that is too long are refused before any server is asked.
func TestRefusedBeforeTheServer(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer func() { _ = c.Close() }()
	queue, long := plain.NewQueue(ctx, nil, 101), strings.Repeat("k", 65)
	lua := func(key string, n int64) error { _, err := plain.Lua(ctx, c, key, 101, n); return err }
	sqls, rediss := plain.ReserveSQL{}, plain.ReserveRedis{Redis: c}
	hold := func(in reserver, key string, n int64) error {
		_, err := in.Hold(ctx, plain.Reservation{Request: key, Product: 101, Quantity: n}, time.Minute)
		return err
	}
	for _, n := range []int64{0, -20} {
		for name, err := range map[string]error{
			"atomic": plain.Atomic(ctx, nil, 101, n), "for update": plain.ForUpdate(ctx, nil, 101, n),
			"version": plain.Version(ctx, nil, 101, n), "lease-seq": plain.LeaseSeq(ctx, nil, c, 101, n),
			"idempotent": plain.Idempotent(ctx, nil, "k", 101, n), "queue": queue.Deduct(ctx, n), "lua": lua("k", n),
			"etcd": plain.Etcd(ctx, nil, 101, n), "reserve-sql": hold(sqls, "", n), "reserve-redis": hold(rediss, "", n),
		} {
			testkit.IsError(t, err, plain.ErrQuantity, "%s of %d", name, n)
		}
	}
	for _, key := range []string{"", long} {
		testkit.IsError(t, plain.Idempotent(ctx, nil, key, 101, 1), plain.ErrKey, "idempotent, key %q", key)
		testkit.IsError(t, lua(key, 1), plain.ErrKey, "lua, key %q", key)
		for _, in := range []reserver{sqls, rediss} {
			_, _, err := in.Confirm(ctx, "101-a", key)
			testkit.IsError(t, err, plain.ErrKey, "%T, payment %q", in, key)
			testkit.IsError(t, in.Adjust(ctx, key, 101, -1), plain.ErrKey, "%T, an adjustment with the key %q", in, key)
			testkit.IsError(t, in.Adjust(ctx, "k", 101, 0), plain.ErrQuantity, "%T, an adjustment by none", in)
			testkit.IsError(t, hold(in, long, 1), plain.ErrKey, "%T, a key that is too long", in)
		}
	}
}

// A key is of one purchase, and a refusal keeps no key.
func TestKeys(t *testing.T) {
	t.Parallel()
	db := shop(t, "idempotent.go", 2)
	for _, c := range []struct {
		key      string
		quantity int64
		want     error
	}{{"a", 1, nil}, {"a", 2, plain.ErrOtherSale}, {"b", 2, plain.ErrSoldOut}, {"b", 1, nil}} {
		if err := plain.Idempotent(t.Context(), db, c.key, 101, c.quantity); !errors.Is(err, c.want) {
			t.Errorf("%s for %d: %v, want %v", c.key, c.quantity, err, c.want)
		}
	}
}
