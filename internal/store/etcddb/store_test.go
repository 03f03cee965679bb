package etcddb_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
	"lastitem/internal/store/etcddb"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

// openEtcd returns a store on a real etcd, and the prefix of its keys.
func openEtcd(t *testing.T) (*etcddb.Store, *clientv3.Client, *testenv.Coordination) {
	t.Helper()
	s := testenv.Etcd(t)
	c := s.EtcdClient(t)
	e := etcddb.New(c, s.Prefix)
	e.AnswersWithin(testenv.Still)
	return e, c, s
}

// always and never are guards.
var (
	always = clientv3.Compare(clientv3.Version("nobody has this key"), "=", 0)
	never  = clientv3.Compare(clientv3.Version("nobody has this key"), ">", 0)
)

func resetEtcd(t *testing.T, e *etcddb.Store, product, stock int64, segments int) {
	t.Helper()
	err := e.Reset(t.Context(), product, stock, ledger.Rules{Segments: segments})
	testkit.Mustf(t, err, "Reset(%d, %d, %d)", product, stock, segments)
}

// write writes at the revision that e reads.
func write(ctx context.Context, e, by *etcddb.Store, guard clientv3.Cmp, stock int64, o ledger.Order) (bool, error) {
	_, revision, _ := e.Read(ctx, o.ProductID)
	return by.Write(ctx, guard, revision, stock, o)
}

var errReused = errors.New("the key was used with another payload")

// An adjustment and a write of a count that was computed from an earlier read exclude each other.
func TestEtcdAdjusts(t *testing.T) {
	t.Parallel()
	e, _, _ := openEtcd(t)
	resetEtcd(t, e, 1, 5, 0)
	adjust := func(key string, delta int64) (int64, bool, error) {
		done, earlier, err := e.Adjust(t.Context(), 1, ledger.Adjustment{Delta: delta, Key: []byte(key)}, false)
		return done.Stock, earlier, err
	}
	_, revision, err := e.Read(t.Context(), 1)
	testkit.Must(t, err)
	for i, c := range []struct {
		key         string
		delta, left int64
		earlier     bool
		err         error
	}{
		{"a", 3, 8, false, nil}, {"a", 3, 8, true, nil}, {"a", 4, 0, false, errReused},
		{"b", -9, 0, false, store.ErrShort}, {"b", -8, 0, false, nil},
	} {
		left, earlier, err := adjust(c.key, c.delta)
		if err != nil && errors.Is(c.err, errReused) {
			continue // an error of another package
		}
		if !errors.Is(err, c.err) || err == nil && (left != c.left || earlier != c.earlier) {
			t.Errorf("%d: Adjust(%s, %d) = %d, %t, %v, want %d, %t, %v", i, c.key, c.delta, left, earlier, err, c.left,
				c.earlier, c.err)
		}
	}
	_, err = e.Write(t.Context(), always, revision, 4, storetest.SomeOrder("a", 1))
	testkit.IsError(t, err, store.ErrConflict, "Write() of a count that was read before an adjustment")
	f, err := storetest.Whole(t, e, 1)
	if err != nil || f.Initial != 0 || f.Stock != 0 || len(f.Adjustments) != 3 {
		t.Errorf("after the adjustments: %+v, %v", f, err)
	}
	for i := range 1100 { // the older ones become part of the setting
		_, _, err = adjust(fmt.Sprint(i), 1)
		testkit.Must(t, err)
	}
	f, err = storetest.Whole(t, e, 1)
	if n := len(f.Adjustments); err != nil || n != 1000 || f.Adjustments[0].Older != 103 || f.Adjustments[0].Delta != 101 {
		t.Errorf("after 1100 more: %d rows, the first %+v, %v", n, f.Adjustments[0], err)
	}
}

func TestEtcdReadsWhatItWrote(t *testing.T) {
	t.Parallel()
	e, _, _ := openEtcd(t)
	_, _, err := e.Read(t.Context(), 1)
	testkit.IsError(t, err, store.ErrUnknownProduct, "Read() of a product that nobody made")
	for _, product := range []int64{1, 10} { // 10's keys begin with 1's
		resetEtcd(t, e, product, 5, 0)
	}
	if ok, err := write(t.Context(), e, e, never, 4, storetest.SomeOrder("a", 1)); ok || err != nil {
		t.Errorf("Write() under a guard that does not hold = %t, %v, want false", ok, err)
	}
	a, b, other := storetest.SomeOrder("a", 1), storetest.SomeOrder("z", 1), storetest.SomeOrder("m", 10)
	b.Remaining, b.Key = nil, nil
	for _, o := range []ledger.Order{a, b, other} {
		if ok, err := write(t.Context(), e, e, always, -3, o); err != nil || !ok {
			t.Errorf("Write() = %t, %v, want true", ok, err)
		}
	}
	if n, _, err := e.Read(t.Context(), 1); n != -3 || err != nil {
		t.Errorf("Read() = %d, %v, want -3", n, err)
	}
	storetest.WantFacts(t, e, 1, ledger.Facts{Initial: 5, Stock: -3, Orders: []ledger.Order{a, b}}, "after the writes")
	resetEtcd(t, e, 1, 7, 0)
	storetest.WantFacts(t, e, 1, ledger.Facts{Initial: 7, Stock: 7}, "after a reset")
	storetest.WantFacts(t, e, 10, ledger.Facts{Initial: 5, Stock: -3, Orders: []ledger.Order{other}},
		"after a reset of the other")
}

func TestEtcdSegmentedProduct(t *testing.T) {
	t.Parallel()
	e, c, s := openEtcd(t)
	resetEtcd(t, e, 1, 5, 3)
	_, _, err := e.Read(t.Context(), 1)
	testkit.IsError(t, err, store.ErrSegmented, "Read() of a segmented product")
	storetest.WantFacts(t, e, 1, ledger.Facts{Initial: 5, Stock: 5}, "segmented in Redis")
	for key, value := range map[string]string{"stock/1": "many", "orders/1/a": "{"} {
		resetEtcd(t, e, 1, 5, 0)
		_, err := c.Put(t.Context(), s.Prefix+key, value)
		testkit.Must(t, err)
		_, err = storetest.Whole(t, e, 1)
		testkit.IsError(t, err, store.ErrUnavailable, "Facts() with %s = %q", key, value)
	}
}

// After a lost answer the outcome is unknown; after a refusal nothing happened.
func TestEtcdWriteErrors(t *testing.T) {
	t.Parallel()
	e, _, s := openEtcd(t)
	resetEtcd(t, e, 1, 5, 0)
	p := storetest.Gate(t, s.Addr, codec.GRPC)
	far := etcddb.New((&testenv.Coordination{Addr: p.Addr}).EtcdClient(t), s.Prefix)
	lost := storetest.SomeOrder("lost", 1)
	held := storetest.Cut(t, p, regexp.QuoteMeta(s.Prefix+"orders/1/lost"))
	if ok, err := write(t.Context(), e, far, always, 4, lost); ok || !errors.Is(err, store.ErrUnknown) {
		t.Errorf("Write() whose answer is lost = %t, %v, want ErrUnknown", ok, err)
	}
	if !storetest.WasCut(held) {
		t.Fatal("no answer was cut: nothing is shown")
	}
	storetest.WantFacts(t, e, 1, ledger.Facts{Initial: 5, Stock: 4, Orders: []ledger.Order{lost}}, "after a lost answer")
	large := storetest.SomeOrder("large", 1)
	large.Mode = strings.Repeat("x", 1800<<10) // more than the server accepts, less than the client's limit
	if ok, err := write(t.Context(), e, e, always, 3, large); ok || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Write() of 1.8 MiB = %t, %v, want ErrUnavailable", ok, err)
	}
	storetest.WantFacts(t, e, 1, ledger.Facts{Initial: 5, Stock: 4, Orders: []ledger.Order{lost}}, "after a refusal")
}

func TestEtcdOutOfReach(t *testing.T) {
	t.Parallel()
	e := etcddb.New((&testenv.Coordination{Addr: "127.0.0.1:1"}).EtcdClient(t), "")
	var all sync.WaitGroup // each waits for its time-out
	all.Go(func() {
		_, _, err := e.Read(t.Context(), 1)
		testkit.IsError(t, err, store.ErrUnavailable, "Read()")
	})
	all.Go(func() {
		_, err := e.Facts(t.Context(), 1)
		testkit.IsError(t, err, store.ErrUnavailable, "Facts()")
	})
	all.Go(func() {
		testkit.IsError(t, e.Reset(t.Context(), 1, 1, ledger.Rules{}), store.ErrUnknown, "Reset()")
	})
	all.Wait()
}

// Every request ends within the time limit that was set.
func TestEtcdAnswersWithin(t *testing.T) {
	t.Parallel()
	e, _, _ := openEtcd(t)
	resetEtcd(t, e, 1, 5, 0)
	e.AnswersWithin(time.Nanosecond)
	want := ledger.Want{Orders: 1}
	for name, request := range map[string]func() error{
		"Read":     func() error { _, _, err := e.Read(t.Context(), 1); return err },
		"Snapshot": func() error { _, _, err := e.Snapshot(t.Context(), 1, want); return err },
		"Page":     func() error { _, _, err := e.Page(t.Context(), 1, ledger.Position{}, want); return err },
	} {
		if err := request(); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s() = %v, want that the time limit has passed", name, err)
		}
	}
}
