package stock_test

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"lastitem/contract/api"
	"lastitem/internal/backend"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/judge"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/stocktest"
	"lastitem/testkit/testenv"
)

func gateOf(t *testing.T, address string, codec wire.Codec) *wire.Proxy {
	t.Helper()
	g, err := wire.NewProxy("server", address, codec)
	testkit.Must(t, err)
	t.Cleanup(g.Close)
	return g
}

// behindGates returns an Env whose Redis and MySQL are reached through gates.
func behindGates(t *testing.T, e stocktest.Env) (far stocktest.Env, inRedis, inSQL *wire.Proxy) {
	t.Helper()
	u, err := url.Parse(e.Redis)
	testkit.Must(t, err)
	inRedis = gateOf(t, u.Host, codec.Redis)
	u.Host = inRedis.Addr
	e.Redis = u.String()
	if !strings.HasPrefix(e.SQL, "sqlite:") {
		cfg, err := mysql.ParseDSN(e.SQL)
		testkit.Must(t, err)
		inSQL = gateOf(t, cfg.Addr, codec.MySQL)
		cfg.Addr = inSQL.Addr
		e.SQL = cfg.FormatDSN()
	}
	return e, inRedis, inSQL
}

// writes returns a filter for commands that change the count or the orders of a product ("101") or of a segment
// ("101#0").
func writes(family, product string) func(wire.Call) bool {
	key := family + ":{" + product + "}"
	return func(c wire.Call) bool {
		return len(c.Words) > 0 && !strings.EqualFold(c.Words[0], "get") && !strings.HasPrefix(c.Pattern, "MULTI; GET") &&
			slices.ContainsFunc(c.Words, func(w string) bool { return strings.HasSuffix(w, key) })
	}
}

// nthCommit returns a filter for the n-th COMMIT.
func nthCommit(n int) func(wire.Call) bool {
	return func(c wire.Call) bool {
		if c.Text == "COMMIT" {
			n--
		}
		return c.Text == "COMMIT" && n == 0
	}
}

func reached(t *testing.T, h *wire.Hold) {
	t.Helper()
	select {
	case <-h.Reached():
	case <-time.After(stocktest.Patience):
		t.Fatal("nothing came that could be held")
	}
}

// wantClaimed fails if the judge finds anything other than want, or what the mode does not claim.
func wantClaimed(t *testing.T, mode string, claim func(stock.Claims) string, r judge.Report, want string) {
	t.Helper()
	testkit.Is(t, r.Found, want, "%s: found in\n%s", mode, r.Text("en"))
	claimed := api.Outcomes(claim(named(t, mode, nil).Claims[stock.Store(r.Store)]))
	stocktest.WantClaim(t, r, claimed, mode)
}

func lateWrite(c stock.Claims) string { return c.LateWrite }

// impatient makes clients give up soon on an answer that is held back.
var impatient = backend.Patience{Redis: 5 * time.Second, Settle: 5 * time.Second}

// A write is held up on its way until its sender has given up. In some cases rivals sell meanwhile. Then the write
// arrives.
func TestLateWriteInRedis(t *testing.T) {
	t.Parallel()
	e := stocktest.On(testenv.Redis(t), testenv.SQLite(t))
	far, inRedis, _ := behindGates(t, e)
	far.Patience = impatient
	a, others := stocktest.Open(t, far, 1, stock.Modes()).Replicas[0], stocktest.Open(t, e, 1, stock.Modes())
	// its script is loaded
	_, err := a.Deduct(t.Context(), "redis-lua", stock.Redis, others.Product(t, 1, 0), 1, "")
	testkit.Must(t, err)
	var finish []func()
	for _, c := range []struct {
		mode     string
		segments int
		rivals   int
		want     string
	}{
		{"setnx", 0, 2, "O"}, {"setnx", 0, 0, "L"}, {"redis-decr", 0, 0, "L"}, {"redis-decr", 0, 2, "L"},
		{"redis-lua", 0, 0, ""}, {"redis-lua", 0, 2, ""},
		{"segmented", 1, 2, "O"}, {"segmented", 1, 0, "L"},
	} {
		product := others.Product(t, 5, c.segments)
		key := strconv.FormatInt(product, 10)
		if c.segments > 0 {
			key += "#0"
		}
		held := inRedis.Add(wire.Rule{Match: writes("stock", key)})
		late := stocktest.Go(t, func() (stock.Receipt, error) {
			return a.Deduct(t.Context(), c.mode, stock.Redis, product, 1, "")
		})
		finish = append(finish, func() {
			answers := []stocktest.Result{late()}
			testkit.IsError(t, answers[0].Err, stock.ErrUnknown, "%s: Deduct() without an answer", c.mode)
			reached(t, held)
			for range c.rivals {
				sold := others.Replicas[0].Sell(t, c.mode, stock.Redis, product, 1, "")
				answers = append(answers, stocktest.Result{Receipt: sold})
			}
			before := others.Books(t, product, stock.Redis).Stock
			held.Pass()
			testkit.Until(t, "another stock", func() bool { return others.Books(t, product, stock.Redis).Stock != before })
			wantClaimed(t, c.mode, lateWrite, others.Judge(t, product, stock.Redis, answers...), c.want)
		})
	}
	for _, f := range finish {
		f()
	}
}

// A COMMIT is held up on its way until its sender has given up. A rival reads, and waits for the row. Then the COMMIT
// arrives.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	e := stocktest.Real(t)
	others := stocktest.Open(t, e, 1, stock.Modes())
	var products []int64 // before a transaction that is held up has locks
	for range 11 {
		products = append(products, others.Product(t, 5, 0))
	}
	var finish []func()
	for i, c := range []struct {
		mode    string
		commits int  // the last of these is held up; an earlier one raises the fence
		reads   bool // the rival's read does not wait for the row that the first has written
		want    string
	}{
		{"setnx", 1, true, "O"}, {"fencing", 1, true, "O"}, {"sql-unique", 1, true, "O"}, {"lease-seq", 1, true, ""},
		{"sql-version", 1, true, ""},
		{"sql-atomic", 1, false, ""}, {"sql-for-update", 1, false, ""}, {"fencing-read", 2, false, ""},
		{"fencing-strict", 2, false, ""},
		{"idempotent", 1, false, ""}, {"queue", 1, false, ""},
	} {
		mode, product := c.mode, products[i]
		far, _, inSQL := behindGates(t, e)
		far.Patience = impatient
		a := stocktest.Open(t, far, 1, []stock.Mode{named(t, mode, nil)}).Replicas[0]
		held := inSQL.Add(wire.Rule{Match: nthCommit(c.commits)})
		var took time.Duration
		late := stocktest.Go(t, func() (r stock.Receipt, err error) {
			began := time.Now()
			r, err = a.Deduct(t.Context(), mode, stock.SQL, product, 1, mode+" late")
			took = time.Since(began)
			return r, err
		})
		finish = append(finish, func() {
			unanswered := late()
			testkit.IsError(t, unanswered.Err, stock.ErrUnknown, "%s: Deduct() with its COMMIT unanswered", mode)
			if took > 20*time.Second {
				t.Errorf("%s: given up after %s: the bound of COMMIT is %s", mode, took, impatient.Settle)
			}
			reached(t, held)
			rival := others.Replicas[0].Hold(t, step.Read)
			if !c.reads { // the rival does not read, or its read waits for the row
				rival.Resume()
			}
			sold := stocktest.Go(t, func() (stock.Receipt, error) {
				return others.Replicas[0].Deduct(rival.Ctx, mode, stock.SQL, product, 1, mode+" rival")
			})
			if c.reads {
				rival.Await(t)
				rival.Resume()
			}
			held.Pass()
			rivals, orders := sold(), 1
			if rivals.Err == nil {
				orders = 2
			} else {
				testkit.IsError(t, rivals.Err, stock.ErrContended, "%s: the rival's Deduct()", mode)
			}
			var r judge.Report
			testkit.Until(t, "one order more", func() bool {
				r = others.Judge(t, product, stock.SQL, unanswered, rivals)
				return r.Orders == orders
			})
			wantClaimed(t, mode, lateWrite, r, c.want)
		})
	}
	for _, f := range finish {
		f()
	}
}

// An etcd transaction is held up on its way until its sender has given up and its lease has ended. A rival sells. Then
// the transaction arrives.
func TestLateTransactionInEtcd(t *testing.T) {
	testenv.Slow(t, "starts etcd, ZooKeeper and Consul")
	t.Parallel()
	e := stocktest.Embedded(t).WithServices(t)
	far := e
	far.Patience.Etcd = 3 * time.Second
	gate := gateOf(t, strings.TrimPrefix(e.Etcd, "http://"), codec.GRPC)
	far.Etcd = "http://" + gate.Addr
	a, others := stocktest.Open(t, far, 1, stock.Modes()).Replicas[0], stocktest.Open(t, e, 1, stock.Modes())
	product := others.Product(t, 5, 0)
	order := "orders/" + strconv.FormatInt(product, 10) + "/"
	held := gate.Add(wire.Rule{Match: func(c wire.Call) bool {
		return strings.HasPrefix(c.Text, "KV.Txn ") && strings.Contains(c.Text, order)
	}})
	late := stocktest.Go(t, func() (stock.Receipt, error) {
		return a.Deduct(t.Context(), "etcd-txn", stock.Etcd, product, 1, "")
	})
	reached(t, held)
	revokeLease(t, others.Replicas[0])
	sold := stocktest.Result{Receipt: others.Replicas[0].Sell(t, "etcd-txn", stock.Etcd, product, 1, "")}
	unanswered := late()
	testkit.IsError(t, unanswered.Err, stock.ErrUnknown, "Deduct() without an answer")
	held.Pass()
	// The sender of the held transaction has left. Once the next call on that connection is answered, the transaction has
	// arrived.
	_, err := a.Set.Etcd.Get(t.Context(), order)
	testkit.Must(t, err)
	wantClaimed(t, "etcd-txn", lateWrite, others.Judge(t, product, stock.Etcd, unanswered, sold), "")
}

// A process stops after its write for longer than any time-out, and then continues: the units still get their order.
func TestPauseAfterTheWrite(t *testing.T) {
	t.Parallel()
	e := stocktest.Embedded(t)
	e.Patience.Settle = 2 * time.Second
	h := stocktest.Open(t, e, 1, stock.Modes())
	var finish []func()
	for _, mode := range []string{"setnx", "watchdog", "segmented", "redis-decr"} {
		product := h.Product(t, 5, 0)
		a := hold(t, h.Replicas[0], step.Written, mode, stock.Redis, product, "")
		finish = append(finish, func() {
			a.sells(t)
			h.WantBooks(t, product, stock.Redis, stocktest.Books{Initial: 5, Stock: 4, Sold: 1, Orders: 1}, mode)
		})
	}
	time.Sleep(3 * e.Patience.Settle)
	for _, f := range finish {
		f()
	}
}

// The Redis that holds the stock fails over between the writes of the count and the order. The lock's store does not
// matter.
func TestFailoverBetweenWriteAndOrder(t *testing.T) {
	testenv.Slow(t, "starts etcd, ZooKeeper, Consul and seven servers of Redis")
	t.Parallel()
	nodes := testenv.RedisNodes(t, 2, "repl-diskless-sync-delay 0")
	e := stocktest.Env{Redis: nodes[0].URL, SQL: testenv.SQLite(t), Prefix: "failover:"}.WithServices(t)
	e, _ = e.WithRedlock(t)
	far, gate, _ := behindGates(t, e)
	far.Patience = backend.Patience{Redis: stocktest.Patience, Settle: stocktest.Patience}
	h := stocktest.Open(t, far, 1, stock.Modes())
	a := h.Replicas[0]
	master, promoted := clientOf(t, nodes[0]), clientOf(t, nodes[1])
	modes := []string{"redlock", "zookeeper", "etcd", "consul", "redis-decr"}
	products := map[string]int64{}
	for _, m := range modes {
		products[m] = h.Product(t, 5, 0)
	}
	halfKnown := h.Product(t, 5, 0) // its count is replicated, its order is not
	follow(t, master, promoted)

	order := gate.Add(wire.Rule{Match: writes("orders", strconv.FormatInt(halfKnown, 10))})
	acked := stocktest.Go(t, func() (stock.Receipt, error) {
		return a.Deduct(t.Context(), "redis-decr", stock.Redis, halfKnown, 1, "")
	})
	reached(t, order)
	key := far.Prefix + "stock:{" + strconv.FormatInt(halfKnown, 10) + "}"
	testkit.Until(t, "the write has reached the promoted replica", func() bool {
		return promoted.Get(t.Context(), key).Val() == "4"
	})
	// from now on the master's writes reach no replica
	testkit.Must(t, promoted.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	order.Pass()
	halfSold := acked()
	testkit.Mustf(t, halfSold.Err, "Deduct()")

	results, stopped := map[string]func() stocktest.Result{}, map[string]*stocktest.Watched{}
	var written []*wire.Hold
	for _, m := range modes {
		written = append(written, gate.Add(wire.Rule{Match: writes("stock", strconv.FormatInt(products[m], 10)),
			Answer: true}))
		held, product := a.Hold(t, step.Written), products[m]
		stopped[m] = held
		results[m] = stocktest.Go(t, func() (stock.Receipt, error) {
			return a.Deduct(held.Ctx, m, stock.Redis, product, 1, "")
		})
	}
	for _, w := range written {
		reached(t, w)
	}
	gate.Turn(promoted.Options().Addr)
	for _, w := range written {
		w.Pass()
	}
	for _, m := range modes { // each finds its connection closed
		stopped[m].Await(t)
		stopped[m].Resume()
	}
	failover := func(c stock.Claims) string { return c.Failover }
	for _, m := range modes {
		r := results[m]()
		testkit.Is(t, r.Err, nil, "%s: Deduct()", m)
		wantClaimed(t, m, failover, h.Judge(t, products[m], stock.Redis, r), "O")
	}
	wantClaimed(t, "redis-decr", failover, h.Judge(t, halfKnown, stock.Redis, halfSold), "LA")
}

func clientOf(t *testing.T, n *testenv.RedisNode) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(n.URL)
	testkit.Must(t, err)
	o.MaxRetries = -1
	c := testkit.Closing(t, redis.NewClient(o))
	return c
}

// follow makes a server the replica of another with the same password, and returns when it is in sync.
func follow(t *testing.T, master, replica *redis.Client) {
	t.Helper()
	o := master.Options()
	host, port, _ := strings.Cut(o.Addr, ":")
	for _, command := range [][]any{
		{"CONFIG", "SET", "masterauth", o.Password}, {"CONFIG", "SET", "requirepass", o.Password}, {"REPLICAOF", host, port},
	} {
		testkit.Mustf(t, replica.Do(t.Context(), command...).Err(), "%v", command)
	}
	testkit.Until(t, "the replica is in step", func() bool {
		return strings.Contains(replica.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
}
