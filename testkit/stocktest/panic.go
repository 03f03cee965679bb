package stocktest

import (
	"testing"

	"lastitem/internal/step"
)

// panics makes the code in the critical section panic between the read and the write: no stock is lost, and the lock is
// free for the next request.
func (c cell) panics(t *testing.T) {
	product := c.h.ProductOf(t, c.mode, 5, 1)
	w := c.h.Replicas[0].Watch(t, func(_ *Watched, at step.Point) {
		if at == step.Read {
			panic("business code fails")
		}
	})
	func() {
		defer func() {
			if recover() == nil {
				t.Errorf("Deduct() returned after %v, want the panic, which the handler answers with 500", w.Steps())
			}
		}()
		_, _ = c.deduct(w.Ctx, product, 2, "panic")
	}()
	c.balance(t, product, Books{Initial: 5, Stock: 5})
	if _, err := c.deduct(t.Context(), product, 1, "next"); err != nil {
		t.Errorf("Deduct() after the panic, not waiting = %v, want nil", err)
	}
}
