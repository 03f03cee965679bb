package shop_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
)

// The work that a request asks for extends its deadline.
func TestHoldExtendsTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit, work, wait = 2 * time.Second, 25 * time.Second, time.Second
		var ends time.Time
		s := as(t, shop.Options{Work: limit}, func(ctx context.Context, _ stock.Request) (stock.Receipt, error) {
			ends, _ = ctx.Deadline()
			return stock.Receipt{}, nil
		})
		req, begin := stocktest.Request(101, 1, ""), time.Now()
		req.Wait, req.Hold.Work = wait, work
		if _, err := s.Deduct(t.Context(), "mutex", req); err != nil {
			t.Fatalf("Deduct() = %v", err)
		}
		if got, want := ends.Sub(begin), wait+work+limit; got != want {
			t.Errorf("the deadline is %s after the beginning, want %s", got, want)
		}
	})
}

// If the lock refuses a lease time, the error names the field.
func TestLeaseTimeRefusedByTheLock(t *testing.T) {
	t.Parallel()
	s := as(t, shop.Options{}, func(context.Context, stock.Request) (stock.Receipt, error) {
		return stock.Receipt{}, lock.ErrLeaseTime
	})
	_, err := s.Deduct(t.Context(), "mutex", stocktest.Request(101, 1, ""))
	var e *stock.InvalidError
	if !errors.As(err, &e) || e.Field != "lease_ms" {
		t.Errorf("Deduct() = %v, want lease_ms refused", err)
	}
}
