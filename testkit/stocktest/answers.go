package stocktest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/idempotency"
	"lastitem/internal/stock"
)

// answers checks a mode that claims to be exact under retries: it keeps the first answer to a key, and gives it again.
func (c cell) answers(t *testing.T) {
	t.Run("replayed", c.replayed)
	t.Run("any body", c.anyBody)
	t.Run("twice", func(t *testing.T) { c.h.ExactTwice(t, c.mode.Name, c.at) })
}

// replayed: a sale, and a refusal that is kept, are repeated at every replica; another payload under the key is
// refused. Without a key nothing is kept.
func (c cell) replayed(t *testing.T) {
	product, want := c.h.ProductOf(t, c.mode, 9, 0), Books{Initial: 9, Stock: 7, Sold: 2, Orders: 1}
	deduct := func(r *Replica, quantity int64, key string) (stock.Receipt, error) {
		return r.Deduct(t.Context(), c.mode.Name, c.at, product, quantity, key)
	}
	sale, refusal := keyOf(product, "sale\x00\xff"), keyOf(product, "refusal")
	first, err := deduct(c.h.Replicas[0], 2, sale)
	if err != nil || first.Stored == nil || first.Replayed {
		t.Fatalf("first Deduct() = %+v, %v, want a stored answer", first, err)
	}
	if want := Answer(first, nil); !bytes.Equal(first.Stored.Body, want.Body) || first.Stored.Status != want.Status {
		t.Errorf("answer stored = %d %s, want %d %s", first.Stored.Status, first.Stored.Body, want.Status, want.Body)
	}
	refused, err := deduct(c.h.Replicas[1], 8, refusal)
	kept := !c.mode.Tickets // units of tickets may come back, so that a refusal is one for now
	if !errors.Is(err, stock.ErrSoldOut) || kept != (refused.Stored != nil) {
		t.Fatalf("Deduct(8 of 7) = %+v, %v, want ErrSoldOut, and a stored answer: %t", refused, err, kept)
	}
	if want := Answer(stock.Receipt{}, err); kept && !bytes.Equal(refused.Stored.Body, want.Body) {
		t.Errorf("refusal stored = %s, want %s", refused.Stored.Body, want.Body)
	}
	for _, r := range c.h.Replicas {
		again, err := deduct(r, 2, sale)
		if diff := cmp.Diff(stock.Receipt{Stored: first.Stored, Replayed: true}, again); err != nil || diff != "" {
			t.Errorf("repeated Deduct() on %s: %v (-want +got):\n%s", r.Options.Replica, err, diff)
		}
		again, err = deduct(r, 8, refusal)
		if diff := cmp.Diff(stock.Receipt{Stored: refused.Stored, Replayed: true}, again); kept &&
			(err != nil || diff != "") {
			t.Errorf("repeated refusal on %s: %v (-want +got):\n%s", r.Options.Replica, err, diff)
		}
		for _, other := range []int64{1, 3} {
			if _, err := deduct(r, other, sale); !errors.Is(err, stock.ErrKeyReused) {
				t.Errorf("Deduct(%d) with the key of Deduct(2) = %v, want ErrKeyReused", other, err)
			}
		}
		if !c.mode.KeyRequired {
			if sold, err := deduct(r, 1, ""); err != nil || sold.Replayed {
				t.Errorf("Deduct() without a key = %+v, %v, want a sale", sold, err)
			}
			want.Stock, want.Sold, want.Orders = want.Stock-1, want.Sold+1, want.Orders+1
		}
	}
	c.balance(t, product, want)
}

// anyBody: a stored body comes back byte for byte.
func (c cell) anyBody(t *testing.T) {
	product := c.h.ProductOf(t, c.mode, 9, 0)
	body := append([]byte("\x00\xff'\"\\?:name @p\r\n\u2028%d汉"), bytes.Repeat([]byte("x"), 4000)...)
	req := Request(product, 1, keyOf(product, "any"))
	req.Store = c.at
	req.Answer = func(stock.Receipt, error) idempotency.Answer { return idempotency.Answer{Status: 299, Body: body} }
	for i := range 2 {
		r, err := c.h.Replicas[i].Shop.Deduct(t.Context(), c.mode.Name, req)
		if err != nil || r.Stored.Status != 299 || !bytes.Equal(r.Stored.Body, body) || r.Replayed != (i > 0) {
			t.Errorf("Deduct() %d = %+v, %v, want 299 %q", i, r, err, body)
		}
	}
}
