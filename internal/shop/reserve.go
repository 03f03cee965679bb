package shop

import (
	"context"
	"fmt"

	"lastitem/internal/stock"
)

// Reserve holds units by the named mode. Its error wraps one of the sentinels of package stock.
func (s *Shop) Reserve(ctx context.Context, mode string, req stock.ReserveRequest) (stock.Reserved, error) {
	e, ok := s.byName[mode]
	if !ok {
		return stock.Reserved{}, fmt.Errorf("%w: %q", stock.ErrUnknownMode, mode)
	}
	if !e.mode.Reserves {
		return stock.Reserved{}, fmt.Errorf("%w: mode %s", stock.ErrReservationUnsupported, mode)
	}
	if err := check(e.mode, &req.Request); err != nil {
		return stock.Reserved{}, err
	}
	if e.err != nil {
		return stock.Reserved{}, &stock.ModeError{Mode: mode, Lacks: e.err}
	}
	if err := s.backends.down([]int64{req.Items[0].ProductID}, e.required...); err != nil {
		return stock.Reserved{}, err
	}
	reserver, ok := e.deductor.(stock.Reserver)
	if !ok {
		return stock.Reserved{}, fmt.Errorf("%w: mode %s", stock.ErrReservationUnsupported, mode)
	}
	return settled(ctx, &s.requests, req.Wait, func(ctx context.Context) (stock.Reserved, error) {
		return reserver.Reserve(ctx, req)
	})
}
