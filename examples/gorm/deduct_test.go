package gormstock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	gormstock "lastitem/examples/gorm"
	"lastitem/testkit/testenv"
)

const product int64 = 101

// shop is an empty database with one product of which stock are there.
func shop(t testing.TB, stock int64, l logger.Interface) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(mysql.Open(testenv.MySQL(t)), &gorm.Config{Logger: l, TranslateError: true})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	if err := db.AutoMigrate(&gormstock.Product{}, &gormstock.Order{}); err != nil {
		t.Fatal(err)
	}
	if err := db.Create(&gormstock.Product{ID: product, Stock: stock}).Error; err != nil {
		t.Fatal(err)
	}
	return db
}

// judge counts what was sold and what is left.
func judge(t *testing.T, db *gorm.DB) (sold, left int64) {
	t.Helper()
	var p gormstock.Product
	if err := errors.Join(db.First(&p, product).Error, db.Model(&gormstock.Order{}).Count(&sold).Error); err != nil {
		t.Fatal(err)
	}
	return sold, p.Stock
}

var ways = []struct {
	name   string
	deduct func(*gorm.DB, int64, int64) error
	exact  bool
}{
	{"ReadThenSave", gormstock.ReadThenSave, false},
	{"ForUpdate", gormstock.ForUpdate, true},
	{"Conditional", gormstock.Conditional, true},
	{"Optimistic", gormstock.Optimistic, true},
	{"Once", func(db *gorm.DB, product, quantity int64) error {
		return gormstock.Once(db, fmt.Sprint(keys.Add(1)), product, quantity)
	}, true},
}

var keys atomic.Int64

// Two requests want the last unit, and each read waits a moment for the other request's read: two reads that nothing
// keeps apart both come before a write. Only where a lock keeps the other one out is the wait in vain.
func TestLastItem(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			db := shop(t, 1, logger.Discard)
			both, reads, moment := make(chan struct{}), atomic.Int64{}, time.Minute
			if way.exact {
				moment = 300 * time.Millisecond
			}
			err := db.Callback().Query().After("gorm:query").Register("meet", func(*gorm.DB) {
				if reads.Add(1) == 2 {
					close(both)
				}
				select {
				case <-both:
				case <-time.After(moment):
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					if err := way.deduct(db, product, 1); err != nil && !errors.Is(err, gormstock.ErrSoldOut) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			sold, left := judge(t, db)
			if exact := sold == 1 && left == 0; exact != way.exact {
				t.Errorf("%d orders for one unit, %d left; want exact = %t", sold, left, way.exact)
			}
		})
	}
}

// Many requests at once sell all that is there, and no more. One of a negative quantity changes nothing.
func TestSoldOut(t *testing.T) {
	t.Parallel()
	for _, way := range ways[1:] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			const stock = 60
			db := shop(t, stock, logger.Discard)
			if err := way.deduct(db, product, -20); !errors.Is(err, gormstock.ErrQuantity) {
				t.Errorf("a quantity of -20: %v, want %v", err, gormstock.ErrQuantity)
			}
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range stock {
						switch err := way.deduct(db, product, 1); {
						case errors.Is(err, gormstock.ErrSoldOut):
							return
						case err != nil && !errors.Is(err, gormstock.ErrContended):
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			if sold, left := judge(t, db); sold != stock || left != 0 {
				t.Errorf("%d sold and %d left of %d", sold, left, stock)
			}
		})
	}
}

// A repeated request is served once; a refused one may come again with its key.
func TestRepeated(t *testing.T) {
	t.Parallel()
	db := shop(t, 1, logger.Discard)
	for range 2 {
		if err := gormstock.Once(db, "a", product, 1); err != nil {
			t.Fatal(err)
		}
	}
	if sold, left := judge(t, db); sold != 1 || left != 0 {
		t.Errorf("%d sold and %d left, want one sale of the two requests with one key", sold, left)
	}
	if err := gormstock.Once(db, "b", product, 1); !errors.Is(err, gormstock.ErrSoldOut) {
		t.Errorf("without stock: %v, want %v", err, gormstock.ErrSoldOut)
	}
	if err := db.Model(&gormstock.Product{}).Where("id = ?", product).Update("stock", 1).Error; err != nil {
		t.Fatal(err)
	}
	if err := gormstock.Once(db, "b", product, 1); err != nil {
		t.Fatal(err)
	}
	if sold, left := judge(t, db); sold != 2 || left != 0 {
		t.Errorf("%d sold and %d left, want that a refusal keeps no key", sold, left)
	}
}

// statements is a logger that keeps what is sent.
type statements struct {
	logger.Interface
	sent []string
}

func (s *statements) Trace(_ context.Context, _ time.Time, fc func() (string, int64), _ error) {
	text, _ := fc()
	s.sent = append(s.sent, strings.TrimSuffix(text, " RETURNING `id`")) // which MariaDB has and MySQL has not
}

// The README shows the statements that gorm sends.
func TestStatements(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range ways {
		if way.name == "Once" {
			continue // its key is another one each time
		}
		l := &statements{Interface: logger.Discard}
		db := shop(t, 1, l)
		l.sent = nil
		if err := way.deduct(db, product, 1); err != nil {
			t.Fatal(err)
		}
		want := way.name + "\n    " + strings.Join(l.sent, "\n    ") + "\n"
		if !strings.Contains(string(readme), want) {
			t.Errorf("README.md lacks\n%s", want)
		}
	}
}

// BenchmarkDeduct is one sale by Conditional and the same two statements by database/sql. cpu-us is the CPU time of
// this process.
func BenchmarkDeduct(b *testing.B) {
	db := shop(b, 1<<40, logger.Discard)
	pool, err := db.DB()
	if err != nil {
		b.Fatal(err)
	}
	for name, deduct := range map[string]func() error{
		"gorm": func() error { return gormstock.Conditional(db, product, 1) },
		"sql": func() error {
			tx, err := pool.BeginTx(b.Context(), nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if _, err := tx.Exec("UPDATE products SET stock = stock - ? WHERE id = ? AND stock >= ?", 1, product,
				1); err != nil {
				return err
			}
			if _, err := tx.Exec("INSERT INTO orders (product_id, quantity) VALUES (?, ?)", product, 1); err != nil {
				return err
			}
			return tx.Commit()
		},
	} {
		b.Run(name, func(b *testing.B) {
			before := testenv.CPUTime(b)
			for b.Loop() {
				if err := deduct(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(testenv.CPUTime(b)-before)/float64(b.N)/1e3, "cpu-us/op")
			b.ReportAllocs()
		})
	}
}
