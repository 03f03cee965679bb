package shop

import (
	"context"

	"lastitem/internal/stock"
)

// LastWords is how long after its deadline a request may still return its outcome.
const LastWords = lastWords

// DeductAnswered lets a mode deduct for a request that was already answered at its deadline.
func (s *Shop) DeductAnswered(ctx context.Context, mode string, req stock.Request) error {
	a := &stock.Attempt{}
	a.Over()
	e := s.byName[mode]
	if err := check(e.mode, &req); err != nil {
		return err
	}
	_, err := e.deductor.Deduct(a.NewContext(ctx), req)
	return err
}
