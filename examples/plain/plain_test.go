package plain_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"lastitem/examples/plain"
	"lastitem/internal/testkit"
	"lastitem/internal/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// tables are the statements in the comments of the files.
var tables = regexp.MustCompile(`(?m)^//\tCREATE TABLE (\w+) .*;$`)

// shop is a database with the tables that a file's comment has, and one product.
func shop(t *testing.T, file string, units int) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", testenv.MySQL(t))
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	source, err := os.ReadFile(file)
	testkit.Must(t, err)
	for _, m := range tables.FindAllString(string(source), -1) {
		_, err := db.ExecContext(t.Context(), m[len("//\t"):])
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
			return func(ctx context.Context, _ int) (err error) {
				for err = plain.ErrContended; errors.Is(err, plain.ErrContended); {
					err = plain.Version(ctx, db, 101, 1)
				}
				return err
			}
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
		o, err := redis.ParseURL(testenv.Redis(t).URL)
		testkit.Must(t, err)
		c := redis.NewClient(o)
		defer func() { _ = c.Close() }()
		product := rand.Int64() // the server is shared
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
