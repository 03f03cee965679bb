// Server is a small service with the locks and idempotency keys of real shops, right ones and wrong ones, for tests of
// the fault lab: server KIND PORT REDIS|MYSQL TTL.
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// sell takes a unit and appends the order ARGV[1], and stores it under the key KEYS[3], if there is one.
const sell = `if KEYS[3] then local old = redis.call('GET', KEYS[3]) if old then return old end end
if tonumber(redis.call('GET', KEYS[1])) < 1 then return '' end
redis.call('DECR', KEYS[1]) redis.call('RPUSH', KEYS[2], ARGV[1])
if KEYS[3] then redis.call('SET', KEYS[3], ARGV[1]) end
return ARGV[1]`

type service struct {
	redis *redis.Client
	sql   *sql.DB
	ttl   time.Duration
	poll  time.Duration
	last  int // see countsInAVariable
}

// answer is the order that was made, or promised, or, without one, why there is none.
type answer struct {
	order, why string
	promised   bool
}

// storesItsAnswerLate locks the key, looks up its answer, sells, and only then stores the answer.
func (s *service) storesItsAnswerLate(ctx context.Context, product, key string) (a answer, err error) {
	owner := uuid.NewString()
	for {
		mine, err := s.redis.SetNX(ctx, "lock:"+key, owner, s.ttl).Result()
		if err != nil {
			return a, err
		}
		if mine {
			break
		}
		time.Sleep(s.poll)
	}
	defer s.redis.Del(ctx, "lock:"+key)
	if a.order, _ = s.redis.Get(ctx, "answer:"+key).Result(); a.order != "" {
		return a, nil
	}
	if a.order, err = s.sold(ctx, product); err == nil {
		err = s.redis.Set(ctx, "answer:"+key, a.order, 0).Err()
	}
	return a, err
}

// saysRunningForEver claims the key for ever before it sells.
func (s *service) saysRunningForEver(ctx context.Context, product, key string) (a answer, err error) {
	mine, err := s.redis.SetNX(ctx, "key:"+key, "running", 0).Result()
	if err != nil {
		return a, err
	}
	if !mine {
		if a.order, err = s.redis.Get(ctx, "key:"+key).Result(); a.order == "running" {
			a.why, a.order = "in progress", ""
		}
		return a, err
	}
	if a.order, err = s.sold(ctx, product); err == nil {
		err = s.redis.Set(ctx, "key:"+key, a.order, 0).Err()
	}
	return a, err
}

// saysInProgress turns a key away that is in progress, and stores its answer with the sale. It is right.
func (s *service) saysInProgress(ctx context.Context, product, key string) (a answer, err error) {
	if a.order, _ = s.redis.Get(ctx, "key:"+key).Result(); a.order != "" {
		return a, nil
	}
	if mine, err := s.redis.SetNX(ctx, "busy:"+key, "1", s.ttl).Result(); err != nil || !mine {
		return answer{why: "in progress"}, err
	}
	defer s.redis.Del(ctx, "busy:"+key)
	a.order, err = s.sold(ctx, product, "key:"+key)
	return a, err
}

func (s *service) sold(ctx context.Context, product string, key ...string) (string, error) {
	keys := append([]string{"stock:" + product, "orders:" + product}, key...)
	return s.redis.Eval(ctx, sell, keys, uuid.NewString()).Text()
}

// promises an order and puts it into a list, from which a worker of any replica takes it.
func (s *service) promises(ctx context.Context, product, _ string) (answer, error) {
	a := answer{order: uuid.NewString(), promised: true}
	return a, s.redis.RPush(ctx, "jobs", product+" "+a.order).Err()
}

// works takes jobs for ever and sells: in one script or, for the wrong service, in three steps.
func (s *service) works(inSteps bool) {
	ctx := context.Background()
	for {
		job, err := s.redis.BLPop(ctx, time.Second, "jobs").Result()
		if err != nil {
			continue
		}
		time.Sleep(s.poll)
		product, order, _ := strings.Cut(job[1], " ")
		stock, orders := "stock:"+product, "orders:"+product
		if !inSteps {
			s.redis.Eval(ctx, sell, []string{stock, orders}, order)
		} else if left, err := s.redis.Get(ctx, stock).Int(); err == nil && left > 0 {
			s.redis.Set(ctx, stock, left-1, 0)
			s.redis.RPush(ctx, orders, order)
		}
	}
}

// saysDuplicate refuses a key that was sold, and names the order. It is right.
func (s *service) saysDuplicate(ctx context.Context, product, key string) (a answer, err error) {
	if a.order, _ = s.redis.Get(ctx, "key:"+key).Result(); a.order != "" {
		return answer{order: a.order, why: "duplicate"}, nil
	}
	a.order, err = s.sold(ctx, product, "key:"+key)
	return a, err
}

// forgetsAKey keeps it for a minute.
func (s *service) forgetsAKey(ctx context.Context, product, key string) (a answer, err error) {
	if a.order, err = s.sold(ctx, product, "key:"+key); err == nil {
		err = s.redis.Expire(ctx, "key:"+key, time.Minute).Err()
	}
	return a, err
}

// triesALock is right, and says busy by the status of sold out.
func (s *service) triesALock(ctx context.Context, product, _ string) (a answer, err error) {
	if mine, err := s.redis.SetNX(ctx, "lock:"+product, "1", s.ttl).Result(); err != nil || !mine {
		return answer{why: "busy"}, err
	}
	defer s.redis.Del(ctx, "lock:"+product)
	a.order, err = s.sold(ctx, product)
	return a, err
}

// The scripts of what is taken for a while: a unit, a job.
const (
	hold = `if tonumber(redis.call('GET', KEYS[1])) < 1 then return 0 end
redis.call('DECR', KEYS[1]) return redis.call('ZADD', 'taken', ARGV[2], ARGV[1])`
	confirm = `return redis.call('ZREM', 'taken', ARGV[1]) == 1 and redis.call('RPUSH', KEYS[1], ARGV[1]) or 0`
	take    = `local j = redis.call('LPOP', 'jobs') if j then redis.call('ZADD', 'taken', ARGV[1], j) end return j`
	overdue = `for _, x in ipairs(redis.call('ZRANGEBYSCORE', 'taken', '-inf', ARGV[1])) do redis.call('ZREM', 'taken', x)
if ARGV[2] == '' then redis.call('RPUSH', 'jobs', x) else redis.call('INCR', 'stock:' .. string.match(x, '^[^ ]+')) end
end`
)

// holdsAUnit confirms it in a second step, and a sweeper gives it back if nobody does. It is right.
func (s *service) holdsAUnit(ctx context.Context, product, _ string) (a answer, err error) {
	a.order = product + " " + uuid.NewString()
	if n, err := s.redis.Eval(ctx, hold, []string{"stock:" + product}, a.order, time.Now().UnixMilli()).Int(); n == 0 {
		return answer{}, err
	}
	return a, s.redis.Eval(ctx, confirm, []string{"orders:" + product}, a.order).Err()
}

// repeats gives back what was taken too long ago, or has it done again.
func (s *service) repeats(jobs bool) {
	for ctx := context.Background(); ; time.Sleep(s.poll) {
		back := map[bool]string{false: "stock"}[jobs]
		s.redis.Eval(ctx, overdue, nil, time.Now().Add(-s.ttl).UnixMilli(), back)
		if !jobs {
			continue
		}
		job, err := s.redis.Eval(ctx, take, nil, time.Now().UnixMilli()).Text()
		if product, order, found := strings.Cut(job, " "); err == nil && found {
			s.redis.Eval(ctx, sell, []string{"stock:" + product, "orders:" + product}, order)
			s.redis.ZRem(ctx, "taken", job)
		}
	}
}

// pollsALockInATable reads and writes the count under a lock that is a row with a TTL.
func (s *service) pollsALockInATable(ctx context.Context, product, _ string) (a answer, err error) {
	owner := uuid.NewString()
	for {
		r, err := s.sql.ExecContext(ctx, "UPDATE locks SET owner = ?, until = NOW(3) + INTERVAL ? MICROSECOND "+
			"WHERE id = ? AND (until IS NULL OR until < NOW(3))", owner, s.ttl.Microseconds(), product)
		if err != nil {
			return a, err
		}
		if n, _ := r.RowsAffected(); n == 1 {
			break
		}
		time.Sleep(s.poll)
	}
	var stock int64
	if err := s.sql.QueryRowContext(ctx, "SELECT stock FROM products WHERE id = ?", product).Scan(&stock); err != nil {
		return a, err
	}
	if stock > 0 {
		a.order = uuid.NewString()
		_, err = s.sql.ExecContext(ctx, "UPDATE products SET stock = ? WHERE id = ?", stock-1, product)
		if err == nil {
			_, err = s.sql.ExecContext(ctx, "INSERT INTO orders (id, product) VALUES (?, ?)", a.order, product)
		}
	}
	if err == nil {
		_, err = s.sql.ExecContext(ctx, "UPDATE locks SET until = NULL WHERE id = ? AND owner = ?", product, owner)
	}
	return a, err
}

// countsInAVariable numbers its orders by a variable, and requests that come at once get one number.
func (s *service) countsInAVariable(ctx context.Context, product, _ string) (answer, error) {
	n := s.last + 1
	time.Sleep(time.Millisecond)
	s.last = n
	order, err := s.redis.Eval(ctx, sell, []string{"stock:" + product, "orders:" + product},
		fmt.Sprint(os.Args[2], "-", n)).Text()
	return answer{order: order}, err
}

// sellsInATrigger leaves the sale to a trigger of orders, which reads, checks and writes.
func (s *service) sellsInATrigger(ctx context.Context, product, _ string) (answer, error) {
	order := uuid.NewString()
	_, err := s.sql.ExecContext(ctx, "INSERT INTO orders (id, product) VALUES (?, ?)", order, product)
	if e := (*mysql.MySQLError)(nil); errors.As(err, &e) && e.Message == "sold out" {
		return answer{}, nil
	}
	return answer{order: order}, err
}

// sellsInSQL sells in one transaction. It is right.
func (s *service) sellsInSQL(ctx context.Context, product, _ string) (a answer, err error) {
	order := uuid.NewString()
	sold, err := s.within(ctx, "UPDATE products SET stock = stock - 1 WHERE id = ? AND stock > 0", product,
		"INSERT INTO orders (id, product, state) VALUES (?, ?, 'sold')", order, product)
	if sold {
		a.order = order
	}
	return a, err
}

// within runs a statement and, if it has changed a row, another, in one transaction.
func (s *service) within(ctx context.Context, first, id, second string, args ...any) (done bool, err error) {
	tx, err := s.sql.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	r, err := tx.ExecContext(ctx, first, id)
	if err != nil {
		return false, err
	}
	if n, _ := r.RowsAffected(); n == 0 {
		return false, nil
	}
	if _, err := tx.ExecContext(ctx, second, args...); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// cancelsOnce puts a unit back if its order could still be cancelled, in one transaction. It is right.
func (s *service) cancelsOnce(ctx context.Context, order string) (bool, error) {
	var product string
	if err := s.sql.QueryRowContext(ctx, "SELECT product FROM orders WHERE id = ?", order).Scan(&product); err != nil {
		return false, err
	}
	return s.within(ctx, "UPDATE orders SET state = 'cancelled' WHERE id = ? AND state = 'sold'", order,
		"UPDATE products SET stock = stock + 1 WHERE id = ?", product)
}

// cancelsByReading reads the state of an order, and then writes it, and the stock.
func (s *service) cancelsByReading(ctx context.Context, order string) (bool, error) {
	var product, state string
	err := s.sql.QueryRowContext(ctx, "SELECT product, state FROM orders WHERE id = ?", order).Scan(&product, &state)
	if err != nil || state != "sold" {
		return false, err
	}
	if _, err = s.sql.ExecContext(ctx, "UPDATE orders SET state = 'cancelled' WHERE id = ?", order); err == nil {
		_, err = s.sql.ExecContext(ctx, "UPDATE products SET stock = stock + 1 WHERE id = ?", product)
	}
	return err == nil, err
}

// ships an order that stands.
func (s *service) ships(ctx context.Context, order string) (bool, error) {
	r, err := s.sql.ExecContext(ctx, "UPDATE orders SET state = 'shipped' WHERE id = ? AND state = 'sold'", order)
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n > 0, err
}

// ends serves what ends an order.
func ends(end func(ctx context.Context, order string) (bool, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch done, err := end(r.Context(), r.PathValue("order")); {
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		case !done:
			http.Error(w, "too late", http.StatusConflict)
		}
	}
}

func main() {
	kind, port, backend := os.Args[1], os.Args[2], os.Args[3]
	ms, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	s := &service{ttl: time.Duration(ms) * time.Millisecond, poll: 20 * time.Millisecond}
	if strings.HasPrefix(backend, "redis://") {
		o, err := redis.ParseURL(backend)
		if err != nil {
			log.Fatal(err)
		}
		s.redis = redis.NewClient(o)
	} else {
		o, err := mysql.ParseDSN(backend)
		if err != nil {
			log.Fatal(err)
		}
		o.InterpolateParams = true
		connector, err := mysql.NewConnector(o)
		if err != nil {
			log.Fatal(err)
		}
		s.sql = sql.OpenDB(connector)
	}
	buy := map[string]func(context.Context, string, string) (answer, error){
		"stores its answer late": s.storesItsAnswerLate, "says running for ever": s.saysRunningForEver,
		"says in progress": s.saysInProgress, "polls a lock in a table": s.pollsALockInATable,
		"counts in a variable": s.countsInAVariable, "sells in a trigger": s.sellsInATrigger,
		"works in one step": s.promises, "works in three steps": s.promises, "does a job again": s.promises,
		"says duplicate": s.saysDuplicate, "tries a lock": s.triesALock, "holds a unit": s.holdsAUnit,
		"forgets a key": s.forgetsAKey, "cancels once": s.sellsInSQL, "cancels by reading": s.sellsInSQL,
	}[kind]
	cancel := s.cancelsOnce
	if kind == "cancels by reading" {
		cancel = s.cancelsByReading
	}
	http.HandleFunc("POST /orders/{order}/cancel", ends(cancel))
	http.HandleFunc("POST /orders/{order}/ship", ends(s.ships))
	if kind == "holds a unit" || kind == "does a job again" {
		go s.repeats(kind == "does a job again")
	}
	if at := os.Getenv("REPLICA"); strings.HasPrefix(kind, "works") && (at == "" || at == "B") {
		go s.works(kind == "works in three steps")
	}
	http.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("POST /buy/{product}", func(w http.ResponseWriter, r *http.Request) {
		a, err := buy(r.Context(), r.PathValue("product"), r.Header.Get("Idempotency-Key"))
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		case a.order == "":
			http.Error(w, cmp.Or(a.why, "sold out"), http.StatusConflict)
		default:
			if a.why != "" {
				w.WriteHeader(http.StatusConflict)
			} else if a.promised {
				w.WriteHeader(http.StatusAccepted)
			}
			_, _ = fmt.Fprintf(w, `{"order_id":%q}`, a.order)
		}
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, nil)) //nolint:gosec // a test ends it
}
